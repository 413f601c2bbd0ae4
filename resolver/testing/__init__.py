"""The test kit for authors of schemes: players of dialogues without I/O, and the contract of every scheme.

A *transcript* (`parse_transcript`) has what both sides of a conversation say. `recite` plays a dialogue
against it, with the server's octets cut in any way (`CUTTERS`, `chunkings`), and gives what comes of it;
`Player` does the same step by step, against a `TranscriptScript`, or octets without order (`OctetScript`), or
a value for each step (`ValueScript`). What is left unsaid or unread at the end fails.

`resolver.testing.contract` has the contract as a class of tests, and `resolver.testing.plugin` is the plug-in
for pytest; they need the extra `testing`. Nothing else here does, and `import resolver` imports none of it.
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
