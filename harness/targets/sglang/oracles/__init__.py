"""What must hold of a release's cache, judged from outside over its public state.

    O   ownership: every slot has one owner, and the FULL-to-SWA map follows the nodes
    L   locks: a release takes back what its own acquire gave, however the tree changed meanwhile
    D   copies: no slot of a copy is given away before the copy has run
    C   content: what the model reads, what is cached and what is backed up are the right tokens
    S   structure: no dead nodes, no child without its parent
    P   progress: requests end, and what they held comes back

Beside them runs the release's own `sanity_check`, where its scheduler calls it: when it is idle.
"""

from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.oracles.content import Content
from harness.targets.sglang.oracles.copies import Copies
from harness.targets.sglang.oracles.host_ledger import HostLedger
from harness.targets.sglang.oracles.ledger import Ledger
from harness.targets.sglang.oracles.ownership import Ownership
from harness.targets.sglang.oracles.structure import Structure

ORACLES: tuple[type[Oracle], ...] = (
    Ledger,
    HostLedger,
    Copies,
    Ownership,
    Content,
    Structure,
)

__all__ = [
    "ORACLES",
    "Broken",
    "Content",
    "Copies",
    "HostLedger",
    "Ledger",
    "Oracle",
    "Ownership",
    "Structure",
]
