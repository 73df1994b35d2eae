"""What Valkey runs for us, and how names become keys that cannot be abused.

CHECK   one request: is its credential revoked, and may it be counted on every limit?
MERGE   add revocations to a partition's copy, and say since when that copy is complete
READMIT lower one of them, in one step, if there is a copy

The keys of a partition share its hash tag, so that they live in one slot of a cluster, and all of them are declared:

    dragoman:{<partition>}/revoked                          hash: <ref> -> not_before, and two marks (see `revocations`)
    dragoman:{<partition>}/<window_s>/<limit name>/<key>    hash: n (window), c (count in it), p (in the one before)

The arithmetic is in whole microseconds, exact in the doubles of Lua up to a quota of 10^8 a minute;
`memory.py` is its twin, and a test holds the two together.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from dragoman.infra.limits.verdict import Limit


class Outcome(IntEnum):
    """The first number of CHECK's reply."""

    REFUSED = 0
    ALLOWED = 1
    REVOKED = 2
    COLD = 3


Reply = Sequence[int]

# KEYS  the partition's revocations, then one per limit
# ARGV  issued_at ('' when nothing can be revoked), complete_after_us, credential ref, subject ref, then quota and
#       window_us per limit
# Reply {outcome, limit, remaining, reset_s, retry_after_s}; when cold {outcome, seconds, microseconds}
CHECK: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

if ARGV[1] ~= '' then
  local known = redis.call('HMGET', KEYS[1], '@complete', 'tenant', ARGV[3], ARGV[4])
  if not known[1] or tonumber(known[1]) < tonumber(ARGV[2]) then
    if redis.call('HSETNX', KEYS[1], '@born', string.format('%.0f', now)) == 1
      and redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], 300000) end
    return {3, tonumber(time[1]), tonumber(time[2])}
  end
  local issued = tonumber(ARGV[1])
  for i = 2, 4 do
    if known[i] and issued < tonumber(known[i]) then return {2} end
  end
end

local worst, worst_share, remaining, reset, retry = 0, 2, 0, 0, 0
local counters = {}
for i = 1, #KEYS - 1 do
  local quota, window = tonumber(ARGV[2 * i + 3]), tonumber(ARGV[2 * i + 4])
  local n, elapsed = math.floor(now / window), now % window
  local current, previous = 0, 0
  local kept = redis.call('HMGET', KEYS[i + 1], 'n', 'c', 'p')
  local kept_n = tonumber(kept[1] or -1)
  if kept_n >= n then current, previous = tonumber(kept[2]), tonumber(kept[3])
  elseif kept_n == n - 1 then previous = tonumber(kept[2]) end

  local free = (quota - current) * window - previous * (window - elapsed)
  if free < window then
    local wait = window
    if quota > current then wait = window - elapsed - math.floor((quota - current - 1) * window / previous)
    elseif quota > 0 then wait = 2 * window - elapsed - math.floor((quota - 1) * window / current) end
    wait = math.max(1, math.ceil(wait / 1000000))
    if wait > retry then
      worst, remaining, retry = i, 0, wait
      reset = math.ceil(((current > 0 and 2 or 1) * window - elapsed) / 1000000)
    end
  elseif retry == 0 then
    local left = math.floor(free / window) - 1
    if left / quota < worst_share then
      worst, worst_share, remaining = i, left / quota, left
      reset = math.ceil((2 * window - elapsed) / 1000000)
    end
  end
  counters[i] = {n, current, previous, math.ceil((2 * window - elapsed) / 1000)}
end
if retry > 0 then return {0, worst, remaining, reset, retry} end

for i, counter in ipairs(counters) do
  if counter[2] > 0 then redis.call('HINCRBY', KEYS[i + 1], 'c', 1)
  else
    redis.call('HSET', KEYS[i + 1], 'n', counter[1], 'c', 1, 'p', counter[3])
    redis.call('PEXPIRE', KEYS[i + 1], counter[4])
  end
end
return {1, worst, remaining, reset, 0}
"""

# KEYS  the partition's revocations
# ARGV  complete_since_us ('' when this is one revocation, not the whole copy), then ref and not_before in turn
# Reply 1, or 0 when the copy was lost since `complete_since_us` and must be loaded again
MERGE: Final = """
if ARGV[1] ~= '' then
  local born = redis.call('HGET', KEYS[1], '@born')
  if not born or tonumber(born) > tonumber(ARGV[1]) then return 0 end
end
for i = 2, #ARGV, 2 do
  local kept = redis.call('HGET', KEYS[1], ARGV[i])
  if not kept or tonumber(kept) < tonumber(ARGV[i + 1]) then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
if ARGV[1] ~= '' then redis.call('HSET', KEYS[1], '@complete', ARGV[1])
elseif redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], 300000) end
return 1
"""

READMIT: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
"""

_LONGEST_PLAIN: Final = 64
_PLAIN = re.compile(r"[A-Za-z0-9_.:\-]*").fullmatch


def plain(text: str) -> str:
    """The text itself when it is short and harmless, else its digest, which no plain text can equal."""
    return _short(text) if len(text) <= _LONGEST_PLAIN else _digest(text)


# Only what is short is remembered, so that nobody fills the memory with names of 10 kB.
@lru_cache(maxsize=16_384)
def _short(text: str) -> str:
    return text if _PLAIN(text) else _digest(text)


def _digest(text: str) -> str:
    return "~" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def revoked_key(partition: str) -> str:
    """Where the partition's revocations are copied."""
    return f"dragoman:{{{plain(partition)}}}/revoked"


def limit_keys(partition: str, limits: Sequence[Limit]) -> list[str]:
    """Where each limit counts."""
    tag = f"dragoman:{{{plain(partition)}}}/"
    return [f"{tag}{limit.window_s}/{plain(limit.name)}/{plain(limit.key)}" for limit in limits]
