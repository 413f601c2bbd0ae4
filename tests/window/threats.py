"""Threats to the web UI, and the tests that carry them out: by raw requests, or in Chromium.

The numbers of the threats do not change. `PLANTED` are the rules that are removed once, with the tests that
show that the attack then succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ACCESS, ADDRESSES, HEADERS, RUNNING, SERVER = (
    f"resolver.web.test_{name}" for name in ("access", "addresses", "headers", "running", "server")
)
LOOK, PAGE = "resolver.web.pages.test_look", "resolver.web.pages.test_page"
ATTACKS, DOCUMENTS, WORDS, CONNECTIONS = (
    f"window.test_{name}" for name in ("attacks", "documents", "words", "connections")
)


class Threat(NamedTuple):
    """An attack; its tests by raw requests, and its tests in a browser."""

    what: str
    by_octets: tuple[str, ...] = ()
    in_chromium: tuple[str, ...] = ()


ELSEWHERE = f"{ATTACKS}:test_a_page_elsewhere_gets_nothing"
REPLAYED = f"{ACCESS}:test_each_has_its_defence"
LED = f"{ATTACKS}:test_who_is_led_here_is_asked_first"

THREATS: Mapping[int, Threat] = {
    1: Threat("a page elsewhere asks for our addresses", (REPLAYED,), (ELSEWHERE,)),
    2: Threat(
        "a form of a page elsewhere is sent to us",
        (REPLAYED, f"{ACCESS}:test_what_acts_proves_that_a_form_of_ours_sent_it"),
        (ELSEWHERE, f"{ATTACKS}:test_a_form_of_a_stranger_does_nothing"),
    ),
    3: Threat(
        "a page elsewhere leads a person to us",
        (REPLAYED, f"{ADDRESSES}:test_who_is_led_here_sends_nothing"),
        (LED,),
    ),
    4: Threat(
        "a WebSocket or a stream of events from elsewhere",
        (REPLAYED, f"{ACCESS}:test_a_websocket_is_closed_whoever_asks"),
        (ELSEWHERE,),
    ),
    5: Threat(
        "all that from another port of this machine, with our cookie",
        (REPLAYED, f"{ACCESS}:test_what_comes_from_elsewhere_is_refused"),
        (ELSEWHERE, LED, f"{ATTACKS}:test_without_the_rule_another_port_would_get_in"),
    ),
    6: Threat(
        "a name that is made to lead here",
        (REPLAYED, f"{ACCESS}:test_without_the_host_a_rebound_name_is_let_in"),
        (f"{ATTACKS}:test_a_name_that_is_made_to_lead_here_leads_nowhere",),
    ),
    7: Threat(
        "other names and spellings of this machine",
        (f"{ACCESS}:test_only_the_numeric_place_is_a_host",),
        (
            f"{ATTACKS}:test_other_names_of_this_machine_are_none_of_ours",
            f"{ATTACKS}:test_another_way_to_write_the_place_is_made_ours_by_the_browser",
        ),
    ),
    8: Threat(
        "the way in is read from a history, a log, another page, a list of processes",
        (
            f"{ACCESS}:test_a_token_lets_in_once",
            f"{ACCESS}:test_a_look_ahead_uses_no_token_up",
            "resolver.cli.test_browsing:test_browser_command_line_of_new_web_ui_has_no_token",
        ),
        (
            f"{ATTACKS}:test_the_way_in_is_good_once_and_nowhere_to_be_found",
            f"{ATTACKS}:test_lead_gives_the_browser_a_page_on_the_disk_that_lets_it_in",
        ),
    ),
    9: Threat(
        "the web learns which page led there",
        (f"{HEADERS}:test_every_answer_of_a_page_says_it",),
        (f"{WORDS}:test_a_link_to_the_web_tells_nobody_where_it_was",),
    ),
    10: Threat(
        "markup in whatever strangers write",
        (f"{PAGE}:test_no_field_becomes_markup", f"{PAGE}:test_nothing_escapes_the_escaping"),
        (f"{WORDS}:test_no_field_of_any_page_becomes_markup",),
    ),
    11: Threat(
        "links that a browser runs, or that open a file",
        (),
        (
            f"{WORDS}:test_no_link_leads_past_us",
            f"{WORDS}:test_who_asks_for_such_a_link_gets_a_page_that_says_no",
        ),
    ),
    12: Threat(
        "text that hides, turns round, or drives a terminal",
        (f"{PAGE}:test_what_would_drive_or_hide_is_shown",),
        (f"{WORDS}:test_what_would_mislead_is_shown",),
    ),
    13: Threat(
        "a document reads, moves or tells of our pages",
        (
            f"{HEADERS}:test_a_document_says_that_it_does_nothing",
            "resolver.web.pages.test_sanitizer:test_allowed_markup_has_only_what_the_lists_have",
            f"{SERVER}:test_gateway_for_a_browser_without_sec_fetch_answers_in_a_sandbox",
            f"{SERVER}:test_gateway_asked_with_the_cookie_of_the_window_sends_nothing",
        ),
        (
            f"{DOCUMENTS}:test_a_document_runs_nothing_asks_nobody_and_stays",
            f"{DOCUMENTS}:test_opened_alone_it_does_no_more",
            f"{CONNECTIONS}:test_document_as_a_page_connects_nowhere_and_looks_up_no_name",
        ),
    ),
    14: Threat(
        "a document reads another one",
        (),
        (f"{DOCUMENTS}:test_a_document_reads_neither_another_one_nor_what_browsers_keep",),
    ),
    15: Threat(
        "a document is taken for what nobody said it is",
        (
            f"{HEADERS}:test_each_is_called_by_a_name_of_ours",
            f"{HEADERS}:test_a_name_is_one_that_every_system_can_have",
            f"{HEADERS}:test_a_name_that_would_be_run_is_warned_of",
            f"{HEADERS}:test_a_value_is_of_ascii_that_is_seen",
        ),
        (f"{DOCUMENTS}:test_nothing_is_taken_for_a_page_that_runs",),
    ),
    16: Threat(
        "a worker that answers in our place",
        (f"{ACCESS}:test_a_service_worker_of_another_program_is_taken_out",),
        (
            f"{DOCUMENTS}:test_our_own_pages_have_no_worker_either",
            f"{DOCUMENTS}:test_a_document_reads_neither_another_one_nor_what_browsers_keep",
            f"{ATTACKS}:test_a_worker_that_another_program_left_at_our_port_is_gone",
        ),
    ),
    17: Threat(
        "another port sets our cookie",
        (f"{ACCESS}:test_only_the_cookie_of_this_run_counts",),
        (
            f"{ATTACKS}:test_a_cookie_that_another_port_has_set_lets_nobody_in",
            f"{ATTACKS}:test_a_page_on_another_port_neither_reads_nor_writes_our_cookie",
        ),
    ),
    18: Threat(
        "a page elsewhere puts us into a frame",
        (),
        (f"{ATTACKS}:test_nobody_puts_our_pages_into_a_frame",),
    ),
    19: Threat(
        "our port is used as a proxy",
        (
            f"{ACCESS}:test_it_is_no_proxy_and_has_few_methods",
            f"{ACCESS}:test_nothing_is_answered_in_http2",
            f"{ACCESS}:test_who_begins_with_http2_gets_a_refusal",
            f"{ACCESS}:test_what_a_proxy_would_say_is_never_read",
        ),
        (f"{ATTACKS}:test_our_port_is_nobodys_proxy",),
    ),
    20: Threat(
        "another user of this machine",
        (
            f"{ACCESS}:test_another_user_of_the_machine_is_not_let_in",
            f"{ACCESS}:test_peer_with_the_port_of_the_users_own_socket_at_another_address_is_refused",
            f"{ACCESS}:test_is_of_this_user_when_one_part_of_the_ends_differs_returns_false",
            f"{ACCESS}:test_is_of_this_user_for_a_closed_peer_returns_false",
            f"{RUNNING}:test_it_is_told_for_its_owner_alone_as_long_as_it_runs",
        ),
    ),
    21: Threat(
        "a page, or a handler, leads to a file of this machine",
        (f"{ADDRESSES}:test_a_local_file_is_for_who_typed_it",),
        (f"{WORDS}:test_nobody_but_who_typed_it_reads_a_file_of_ours",),
    ),
    22: Threat(
        "a public page leads to the network inside",
        (f"{ADDRESSES}:test_a_public_page_leads_not_inside",),
        (f"{WORDS}:test_a_page_that_leads_inside_is_not_followed",),
    ),
    23: Threat("a page of the public network asks for our addresses", (), (ELSEWHERE, LED)),
    24: Threat("a page that came by TLS asks for our addresses", (), (ELSEWHERE, LED)),
    25: Threat(
        "who is slow, or comes in numbers",
        (
            f"{SERVER}:test_who_says_nothing_is_let_go",
            f"{SERVER}:test_who_drips_a_head_is_let_go",
            f"{SERVER}:test_no_more_than_so_many_requests_are_answered_at_a_time",
            f"{ACCESS}:test_a_form_is_short_and_comes_soon",
        ),
    ),
    26: Threat("who stops reading", (f"{SERVER}:test_who_stops_reading_holds_nothing_up",)),
    27: Threat(
        "what has no end, or grows",
        (
            f"{SERVER}:test_what_has_no_end_is_a_page_like_others",
            f"{SERVER}:test_of_a_long_listing_a_page_is_shown_and_the_rest_is_kept_here",
            f"{SERVER}:test_of_a_long_text_a_part_is_shown",
            f"{SERVER}:test_what_grows_when_it_is_unpacked_is_not",
        ),
    ),
    28: Threat(
        "octets in a URL that would end a command",
        (f"{ADDRESSES}:test_what_would_end_a_command_is_shown_and_never_sent",),
        (f"{WORDS}:test_what_would_end_a_command_is_pointed_at",),
    ),
    29: Threat(
        "an address of ours that leads elsewhere",
        (f"{ADDRESSES}:test_no_address_of_ours_leads_elsewhere",),
        (f"{WORDS}:test_no_address_of_ours_leads_elsewhere",),
    ),
}

#: Removed rule -> tests that then detect the attack.
PLANTED: Mapping[str, tuple[str, ...]] = {
    "host": (
        f"{ACCESS}:test_without_that_rule_every_name_is_one",
        f"{ACCESS}:test_without_the_host_a_rebound_name_is_let_in",
    ),
    "site": (
        f"{ACCESS}:test_without_sec_fetch_site_another_port_is_let_in",
        f"{ATTACKS}:test_without_the_rule_another_port_would_get_in",
    ),
    "cookie": (f"{ACCESS}:test_without_the_cookie_another_name_is_let_in",),
    "csrf": (f"{ACCESS}:test_without_the_proof_a_form_of_another_port_is_let_in",),
    "program": ("resolver.web.test_running:test_without_that_rule_every_page_makes_its_way_in",),
    "origin": (f"{ACCESS}:test_what_acts_proves_that_a_form_of_ours_sent_it",),
    "peer": (f"{ACCESS}:test_another_user_of_the_machine_is_not_let_in",),
    "version": (f"{ACCESS}:test_nothing_is_answered_in_http2",),
    "method": (f"{ACCESS}:test_without_that_rule_it_would_be_asked_as_a_proxy",),
    "nosniff": (
        f"{HEADERS}:test_one_that_is_missing_is_missed",
        f"{HEADERS}:test_without_that_header_it_would_be_missed",
    ),
    "sandbox": (
        f"{DOCUMENTS}:test_without_the_sandbox_a_document_would_leave",
        f"{DOCUMENTS}:test_without_the_sandbox_one_document_would_read_another",
    ),
    "frame-src": (f"{DOCUMENTS}:test_without_the_policy_of_its_frame_a_link_would_leave_it",),
    "markup written anew": (f"{CONNECTIONS}:test_document_that_is_not_written_anew_connects",),
    "policy of documents": (f"{DOCUMENTS}:test_without_the_policy_of_the_document_it_would_ask_elsewhere",),
    "frame-ancestors": (f"{ATTACKS}:test_without_the_headers_a_frame_would_have_us",),
    "autoescape": (f"{WORDS}:test_without_the_escaping_every_one_would",),
}
