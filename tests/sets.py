"""The two sets of tests: the tests that `make test` leaves to `make test-full`, and the reasons.

The gate (`make test`, `pytest --gate`) decides whether a change lands. It is quick, and gives the same commit
the same verdict: fixed rows, fixed seeds, no process that is killed at a random moment, one page in Chromium,
one fetch from each real server. All other tests are the search (`make test-full`), which looks for defects
that the gate does not cover yet.

A test belongs to the search if it is in this table, or has the marker `slow`. The gate does not even import
the files of the table. The table is based on measurements: the CPU time of a test and of its file, compared
with the lines that no other test of the gate runs, and the mutations that no other test detects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

#: For each reason the folders, files (`tests/x.py`) and tests (`tests/x.py::test_y`, all their cases).
FULL: Mapping[str, str] = {
    "Chromium and real servers; the gate has one fetch of each in tests/servers/test_each_server.py": """
        tests/servers/test_fsspec.py
        tests/servers/test_ftp.py
        tests/servers/test_gopher.py
        tests/servers/test_harness.py
        tests/servers/test_http.py
        tests/servers/test_libraries.py
        tests/servers/test_many_servers.py
        tests/servers/test_news.py
        tests/servers/test_plugins.py
        tests/servers/test_proxies.py
        tests/servers/test_snakemake.py
        tests/servers/test_telnet.py
        tests/servers/test_trees.py
        tests/window
    """,
    "clusters": """
        tests/bulk
        tests/resolver/bulk/test_forecast.py
        tests/resolver/bulk/test_messages.py
        tests/resolver/bulk/test_outcomes.py
        tests/resolver/bulk/test_run.py
        tests/resolver/bulk/test_slice.py
        tests/resolver/cli/test_bulk.py
        tests/resolver/cli/test_interrupts.py::test_interrupted_bulk_ends_all_its_processes
    """,
    "kills, cancels and full disks at every step": """
        tests/faults
        tests/world/test_world.py::test_world_holds_invariants_for_many_seeds
        tests/loops/test_blocking.py::test_interrupt_at_every_step_keeps_session_usable
        tests/loops/test_cancels.py
        tests/loops/test_httpx.py
        tests/loops/test_streams_of_octets.py
        tests/resolver/blocking/test_portal.py::test_programs_end_without_error
        tests/resolver/cli/test_descriptors.py
        tests/resolver/cli/test_ledger.py::test_ledger_on_full_disk_ends_run_without_loss
        tests/resolver/cli/test_ledger_faults.py
        tests/resolver/cli/test_warc_killed.py
        tests/resolver/transfer/test_many.py::test_save_all_left_early_is_resumed
        tests/resolver/transfer/test_segmented.py::test_cancelled_download_is_resumed
        tests/resolver/transfer/test_segmented.py::test_killed_download_keeps_recorded_ranges
    """,
    "work and memory in proportion to the input: long inputs and bombs": """
        tests/contract/test_many_entries.py
        tests/protocols/gopher/test_dialogue.py::test_memory_does_not_grow_with_body
        tests/protocols/http/test_codings.py::test_decoding_bomb_after_incompressible_data_uses_bounded_memory
        tests/protocols/http/test_codings.py::test_decoding_gives_small_pieces_for_every_split
        tests/protocols/http/test_cookies.py::test_jar_size_is_limited
        tests/resolver/adapters/fsspec/test_file.py::test_unclosed_file_is_collected_without_warnings
        tests/resolver/files/test_local.py::test_device_is_read_in_chunks
        tests/resolver/network/test_stream.py::test_move_of_64_mib_uses_less_than_two
        tests/resolver/policy/test_judgment.py::test_check_of_long_url_takes_linear_time
        tests/resolver/transfer/test_caches.py
        tests/resolver/transfer/test_codings_of_nothing.py
        tests/resolver/transfer/test_extras.py::test_coding_bomb_is_decoded_in_bounded_pieces
        tests/resolver/transfer/test_streaming.py::test_streams_pause_every_few_entries
        tests/resolver/url/test_parsing.py::test_parse_and_build_take_linear_time
        tests/resolver/url/test_parsing.py::test_linearity_check_detects_quadratic_work
        tests/resolver/warc/test_records.py::test_read_records_memory_is_bounded
        tests/resolver/warc/test_revisits.py::test_find_stops_reading_oversized_record
        tests/resolver/web/pages/test_document.py::test_text_of_markup_without_end_takes_linear_time
        tests/resolver/web/test_reading.py::test_link_verdict_does_not_depend_on_earlier_links
        tests/resolver/web/test_server.py::test_page_of_long_listing_is_paged_from_cache
        tests/resolver/web/test_server.py::test_page_of_endless_menu_is_bounded
        tests/resolver/web/test_server.py::test_server_closes_connection_with_slow_head
        tests/resolver/web/test_server.py::test_server_closes_idle_connections
        tests/resolver/web/test_server.py::test_server_stops_despite_stalled_readers
        tests/resolver/web/test_session.py::test_listing_cache_over_100000_entries_drops_oldest
    """,
    "long use of a session: 50,000 fetches": """
        tests/soak/test_soak.py::test_soak_of_50000_fetches_keeps_memory_descriptors_threads_and_tasks
        tests/soak/test_soak.py::test_soak_finds_planted_leak_of_memory
    """,
    "any input: rounds of a fuzzer": """
        tests/contract/test_peers.py
        tests/protocols/ftp/test_fuzz.py
        tests/protocols/gopher/test_fuzz.py
        tests/protocols/http/test_response.py::test_parse_date_accepts_any_text
        tests/protocols/news/test_fuzz.py
        tests/protocols/prospero/test_fuzz.py
        tests/protocols/telnet/test_fuzz.py
        tests/protocols/wais/test_fuzz.py
        tests/resolver/cli/test_any_input.py
        tests/resolver/warc/test_served_damaged.py
    """,
    "said in the gate of the machine or the library; here again of a loop, the command": """
        tests/contract/test_agreement.py
        tests/contract/test_through_proxies.py
        tests/loops/test_contract.py
        tests/loops/test_fastapi.py
        tests/loops/test_frameworks.py
        tests/loops/test_jupyter.py
        tests/loops/test_matrix.py
        tests/protocols/test_errors.py::test_sources_do_not_change_caught_errors
        tests/protocols/test_errors.py::test_error_classes_are_complete
        tests/resolver/adapters/mcp/test_markdown.py::test_convert_html_of_hostile_page_is_bounded
        tests/resolver/adapters/test_httpx_http2.py
        tests/resolver/cli/test_browsing.py
        tests/resolver/cli/test_plain_words.py
        tests/resolver/cli/test_progress.py
        tests/resolver/cli/test_same_name.py
        tests/resolver/cli/test_warc_runs.py
        tests/resolver/network/test_stream.py::test_move_without_count_copies_until_end
        tests/resolver/network/test_stream.py::test_move_with_count_leaves_following_bytes
        tests/resolver/transfer/test_early_answers.py
    """,
    "the mock servers, which the tests of the gate use": """
        tests/fixtures
    """,
    "libraries of the group full": """
        tests/resolver/adapters/fsspec/test_file.py::test_duckdb_reads_parquet_in_several_threads
        tests/resolver/adapters/fsspec/test_filesystem.py::test_pandas_reads_table_by_ftp
        tests/resolver/adapters/fsspec/test_filesystem.py::test_pandas_reads_table_by_gopher
        tests/resolver/adapters/fsspec/test_filesystem.py::test_dask_reads_tables_in_threads
        tests/resolver/adapters/guard/test_attacks.py
        tests/resolver/adapters/guard/test_niquests.py
        tests/resolver/adapters/guard/test_services.py
        tests/resolver/adapters/test_official_clients.py
        tests/resolver/adapters/test_requests_cache.py
        tests/resolver/adapters/test_urllib.py::test_pandas_reads_table_from_gopher
    """,
    "programs that are built, installed or started again and again": """
        tests/manual/test_files.py
        tests/resolver/cli/test_mcp.py::test_mcp_listen_prints_url_and_token_until_signal
        tests/resolver/cli/test_mcp.py::test_mcp_listen_without_output_fails
        tests/resolver/cli/test_mcp.py::test_mcp_process_answers_tools_and_cancellation
        tests/resolver/cli/test_plugin.py
        tests/resolver/cli/test_register.py
        tests/resolver/cli/test_warc_elsewhere.py
        tests/test_begun.py
        tests/test_distribution.py
        tests/test_own_scheme.py
        tests/test_packaging.py
        tests/test_plugins.py
        tests/test_recipes.py
        tests/test_scheduled.py
        tests/test_sessions.py
    """,
    "benchmarks and tools, their pages, and calls that are counted": """
        tests/resolver/cli/test_calls_of_get.py
        tests/test_benchmarks.py
        tests/test_calls.py
        tests/test_speed.py
        tests/test_strangers.py
        tests/tools
    """,
}

_PATHS = {path for paths in FULL.values() for path in paths.split()}


def is_left_out(path: str) -> bool:
    """Return whether the gate leaves a folder or file out; `path` is relative to the checkout."""
    place = PurePosixPath(path)
    return not _PATHS.isdisjoint(map(str, (place, *place.parents)))


def is_test_left_out(nodeid: str) -> bool:
    """Return whether the gate leaves a test out of a file that it collects."""
    return nodeid.partition("[")[0] in _PATHS


def unknown() -> list[str]:
    """Return the rows of the table with a missing file, or with a test that its file does not have."""
    checkout = Path(__file__).parents[1]
    return [path for path in sorted(_PATHS) if not _exists(checkout, *path.split("::"))]


def _exists(checkout: Path, path: str, test: str = "") -> bool:
    place = checkout / path
    return place.exists() and (not test or f"def {test}(" in place.read_text(encoding="utf-8"))
