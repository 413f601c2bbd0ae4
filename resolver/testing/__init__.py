"""The test kit for authors of schemes: tests of protocol exchanges without I/O, and the contract of schemes.

A *transcript* (`parse_transcript`) contains the bytes of both sides of a protocol exchange. `recite` runs the
client's side of the exchange against the transcript, and returns the outcome. `CUTTERS` and `chunkings` split
the server's bytes into blocks in different ways.

`Player` runs a protocol exchange step by step. The mock peer of a `Player` is a transcript
(`TranscriptScript`), a list of bytes that are sent after any request (`OctetScript`), or a value for each
step (`ValueScript`). If bytes are still unsent or unread at the end of the exchange, the test fails.

`resolver.testing.contract` contains the contract as a test class. `resolver.testing.plugin` is the plug-in
for pytest. The modules `contract` and `plugin` need the extra `testing`; the other modules do not. `import
resolver` does not import this package.
"""

from __future__ import annotations

from resolver.testing.player import UNSCRIPTED as UNSCRIPTED
from resolver.testing.player import OctetScript as OctetScript
from resolver.testing.player import PeerOutput as PeerOutput
from resolver.testing.player import Player as Player
from resolver.testing.player import ScriptedPeer as ScriptedPeer
from resolver.testing.player import TranscriptScript as TranscriptScript
from resolver.testing.player import ValueScript as ValueScript
from resolver.testing.player import check as check
from resolver.testing.player import recite as recite
from resolver.testing.transcript import CUTTERS as CUTTERS
from resolver.testing.transcript import BadTranscript as BadTranscript
from resolver.testing.transcript import Cutter as Cutter
from resolver.testing.transcript import DialogueTranscript as DialogueTranscript
from resolver.testing.transcript import TranscriptOutcome as TranscriptOutcome
from resolver.testing.transcript import chunkings as chunkings
from resolver.testing.transcript import cut_at as cut_at
from resolver.testing.transcript import oddly as oddly
from resolver.testing.transcript import one_by_one as one_by_one
from resolver.testing.transcript import parse_transcript as parse_transcript
from resolver.testing.transcript import whole as whole
