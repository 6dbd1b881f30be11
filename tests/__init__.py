"""Tests, laid out as the packages are; sub-folders need no file like this one."""
