#!/bin/sh
# Makes sure that a Redis or Valkey server is installed, where the distribution's package can be had;
# the tests of that storage backend start one of their own. Never fails: without one they are skipped.
command -v redis-server >/dev/null || command -v valkey-server >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get install -y -qq --no-install-recommends redis-server ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server; }
  } >/dev/null 2>&1 && exit 0
fi
echo "no redis-server or valkey-server here: tests of the redis storage backend will be skipped" >&2
exit 0
