"""The block of one record, read at its place in an archive."""

from __future__ import annotations

import pytest

from resolver import ProtocolError
from resolver.warc.catalogue import RecordPosition, open_block
from resolver.warc.records import Budget
from tests.resolver.warc.archives import Octets, record


@pytest.mark.parametrize("offset", [4, 7])
def test_open_block_offset_at_the_end_of_the_file_raises(offset: int) -> None:
    with pytest.raises(ProtocolError, match="no record begins there"):
        open_block(Octets(b"\r\n\r\n"[:offset]), RecordPosition(0, offset, 0), Budget(offset))


def test_open_block_member_of_fewer_records_raises() -> None:
    with pytest.raises(ProtocolError, match="no record begins there"):
        open_block(Octets(record()), RecordPosition(0, 0, 1), Budget(0))
