"""Adds to pyproject.toml what it cannot say: the bundled traces become a part of `workloads`.

They live in tests/data, once; a build puts them into the package as `workloads/data`.
"""

from setuptools import find_packages, setup

PACKAGES = find_packages(include=["cache*", "workloads*", "harness*"])

setup(
    packages=[*PACKAGES, "workloads.data"],
    package_dir={"workloads.data": "tests/data"},
    package_data={
        "workloads.data": ["mooncake_conversation_1000.jsonl", "*.md"],
        "harness.report": ["templates/*"],
        "harness.smoke": ["smoke.toml"],
    },
)
