"""The one driver of dialogues, and the only part of `protocols` that waits for anything."""

from protocols.conversation.driver import hold

__all__ = ["hold"]
