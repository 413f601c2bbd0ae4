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


ELSEWHERE = f"{ATTACKS}:test_attacking_page_fetches_nothing"
REPLAYED = f"{ACCESS}:test_recorded_request_gets_expected_response"
LED = f"{ATTACKS}:test_navigation_from_untrusted_page_asks_first"

THREATS: Mapping[int, Threat] = {
    1: Threat("a page of another origin requests URLs of the web UI", (REPLAYED,), (ELSEWHERE,)),
    2: Threat(
        "a page of another origin submits a form to the web UI",
        (REPLAYED, f"{ACCESS}:test_post_requires_csrf_token_media_type_and_origin"),
        (ELSEWHERE, f"{ATTACKS}:test_form_of_untrusted_page_is_refused"),
    ),
    3: Threat(
        "a page of another origin navigates the user to the web UI",
        (REPLAYED, f"{ADDRESSES}:test_cross_site_url_sends_no_request"),
        (LED,),
    ),
    4: Threat(
        "a WebSocket or an event stream from another origin",
        (REPLAYED, f"{ACCESS}:test_websocket_is_refused"),
        (ELSEWHERE,),
    ),
    5: Threat(
        "the same from another port of this machine, with the session cookie",
        (REPLAYED, f"{ACCESS}:test_request_with_other_sec_fetch_site_is_refused"),
        (ELSEWHERE, LED, f"{ATTACKS}:test_attacking_page_without_site_rule_succeeds"),
    ),
    6: Threat(
        "DNS rebinding",
        (REPLAYED, f"{ACCESS}:test_access_without_host_rule_allows_rebound_name"),
        (f"{ATTACKS}:test_rebound_name_is_refused",),
    ),
    7: Threat(
        "other names and spellings of the loopback address",
        (f"{ACCESS}:test_host_other_than_numeric_address_is_refused",),
        (
            f"{ATTACKS}:test_other_names_of_this_machine_are_refused",
            f"{ATTACKS}:test_browser_normalizes_other_spelling_of_address",
        ),
    ),
    8: Threat(
        "the entry link is read from a history, a log, another page or a process list",
        (
            f"{ACCESS}:test_entry_token_is_accepted_once",
            f"{ACCESS}:test_entry_token_is_not_used_up_by_head",
            "resolver.cli.test_browsing:test_browser_command_line_of_new_web_ui_has_no_token",
        ),
        (
            f"{ATTACKS}:test_entry_link_works_once_and_leaves_no_trace",
            f"{ATTACKS}:test_lead_opens_file_that_enters",
        ),
    ),
    9: Threat(
        "a web server learns which page linked to it",
        (f"{HEADERS}:test_page_responses_have_security_headers",),
        (f"{WORDS}:test_link_followed_sends_no_browser_headers",),
    ),
    10: Threat(
        "markup in untrusted text",
        (
            f"{PAGE}:test_page_with_hostile_field_has_no_new_markup",
            f"{PAGE}:test_templates_do_not_disable_escaping",
        ),
        (f"{WORDS}:test_page_in_chromium_has_no_markup_of_fields",),
    ),
    11: Threat(
        "links that a browser runs, or that open a file",
        (),
        (
            f"{WORDS}:test_links_of_untrusted_pages_lead_to_the_web_ui",
            f"{WORDS}:test_harmful_url_opened_directly_is_refused",
        ),
    ),
    12: Threat(
        "text with invisible, bidirectional or terminal control characters",
        (f"{PAGE}:test_page_shows_control_characters_escaped",),
        (f"{WORDS}:test_misleading_characters_are_shown_escaped",),
    ),
    13: Threat(
        "a document reads or navigates pages, or reports them",
        (
            f"{HEADERS}:test_content_response_is_sandboxed_attachment",
            "resolver.web.pages.test_sanitizer:test_allowed_markup_names_no_host",
            f"{SERVER}:test_gateway_without_sec_fetch_answers_in_a_sandbox",
            f"{SERVER}:test_gateway_with_session_cookie_sends_nothing",
        ),
        (
            f"{DOCUMENTS}:test_framed_document_has_no_effect",
            f"{DOCUMENTS}:test_document_outside_frame_has_no_effect",
            f"{CONNECTIONS}:test_document_as_page_opens_no_connection",
        ),
    ),
    14: Threat(
        "a document reads another one",
        (),
        (f"{DOCUMENTS}:test_document_reads_no_other_document_or_storage",),
    ),
    15: Threat(
        "content sniffing: a browser treats a document as another media type",
        (
            f"{HEADERS}:test_content_response_has_media_type_of_own_table",
            f"{HEADERS}:test_disposition_name_is_valid_on_all_systems",
            f"{HEADERS}:test_page_of_executable_name_has_warning",
            f"{HEADERS}:test_field_value_is_printable_ascii",
        ),
        (f"{DOCUMENTS}:test_document_of_any_media_type_runs_no_script",),
    ),
    16: Threat(
        "a service worker that answers requests to the web UI",
        (f"{ACCESS}:test_service_worker_of_another_program_is_unregistered",),
        (
            f"{DOCUMENTS}:test_page_cannot_register_worker",
            f"{DOCUMENTS}:test_document_reads_no_other_document_or_storage",
            f"{ATTACKS}:test_worker_of_previous_server_is_removed",
        ),
    ),
    17: Threat(
        "another port sets the session cookie",
        (f"{ACCESS}:test_cookie_other_than_of_this_run_is_refused",),
        (
            f"{ATTACKS}:test_cookie_set_by_another_port_is_refused",
            f"{ATTACKS}:test_cookie_is_inaccessible_to_page_of_another_port",
        ),
    ),
    18: Threat(
        "a page of another origin frames the web UI",
        (),
        (f"{ATTACKS}:test_frame_of_untrusted_page_shows_no_page",),
    ),
    19: Threat(
        "the port is used as a proxy",
        (
            f"{ACCESS}:test_request_with_proxy_target_or_other_method_is_refused",
            f"{ACCESS}:test_http2_upgrade_is_refused",
            f"{ACCESS}:test_http2_with_prior_knowledge_is_refused",
            f"{ACCESS}:test_forwarding_headers_are_ignored",
        ),
        (f"{ATTACKS}:test_port_used_as_proxy_refuses",),
    ),
    20: Threat(
        "another user of this machine",
        (
            f"{ACCESS}:test_request_of_another_user_is_refused",
            f"{ACCESS}:test_peer_with_own_port_at_another_address_is_refused",
            f"{ACCESS}:test_is_of_this_user_with_different_endpoint_returns_false",
            f"{ACCESS}:test_is_of_this_user_for_a_closed_peer_returns_false",
            f"{RUNNING}:test_announced_server_is_private_and_removed_at_exit",
        ),
    ),
    21: Threat(
        "a page or a scheme handler links to a local file",
        (f"{ADDRESSES}:test_local_file_opens_only_if_typed",),
        (f"{WORDS}:test_local_file_linked_by_untrusted_page_is_refused",),
    ),
    22: Threat(
        "a public page links to the private network",
        (f"{ADDRESSES}:test_link_of_public_page_to_private_network_is_refused",),
        (f"{WORDS}:test_redirect_to_private_address_is_refused",),
    ),
    23: Threat("a page of the public network requests URLs of the web UI", (), (ELSEWHERE, LED)),
    24: Threat("a page loaded over TLS requests URLs of the web UI", (), (ELSEWHERE, LED)),
    25: Threat(
        "slow clients, or many clients",
        (
            f"{SERVER}:test_server_closes_idle_connections",
            f"{SERVER}:test_server_closes_connection_with_slow_head",
            f"{SERVER}:test_server_limits_concurrent_requests",
            f"{ACCESS}:test_form_too_long_or_slow_is_refused",
        ),
    ),
    26: Threat("clients that stop reading", (f"{SERVER}:test_server_stops_despite_stalled_readers",)),
    27: Threat(
        "endless responses and decompression bombs",
        (
            f"{SERVER}:test_page_of_endless_menu_is_bounded",
            f"{SERVER}:test_page_of_long_listing_is_paged_from_cache",
            f"{SERVER}:test_page_of_long_text_shows_a_part",
            f"{SERVER}:test_page_of_decompression_bomb_is_refused",
        ),
    ),
    28: Threat(
        "bytes in a URL that end a protocol command",
        (f"{ADDRESSES}:test_url_with_line_end_is_shown_and_not_sent",),
        (f"{WORDS}:test_preview_marks_line_end_in_url",),
    ),
    29: Threat(
        "a path of the web UI that redirects to another host",
        (f"{ADDRESSES}:test_path_with_other_host_is_not_found",),
        (f"{WORDS}:test_path_with_other_host_stays_on_the_web_ui",),
    ),
}

#: Removed rule -> tests that then detect the attack.
PLANTED: Mapping[str, tuple[str, ...]] = {
    "check_host": (
        f"{ACCESS}:test_access_without_host_rule_allows_any_host",
        f"{ACCESS}:test_access_without_host_rule_allows_rebound_name",
    ),
    "check_site": (
        f"{ACCESS}:test_access_without_site_rule_allows_another_port",
        f"{ATTACKS}:test_attacking_page_without_site_rule_succeeds",
    ),
    "check_cookie": (f"{ACCESS}:test_access_without_cookie_rule_allows_another_name",),
    "csrf": (f"{ACCESS}:test_access_without_csrf_allows_form_of_another_port",),
    "check_program": ("resolver.web.test_running:test_access_without_program_rule_allows_start_by_any_page",),
    "check_origin": (f"{ACCESS}:test_post_requires_csrf_token_media_type_and_origin",),
    "check_peer": (f"{ACCESS}:test_request_of_another_user_is_refused",),
    "check_version": (f"{ACCESS}:test_http2_upgrade_is_refused",),
    "check_method": (f"{ACCESS}:test_access_without_method_rule_allows_proxy_target",),
    "nosniff": (
        f"{HEADERS}:test_assert_guarded_without_a_header_fails",
        f"{HEADERS}:test_content_response_without_nosniff_is_not_guarded",
    ),
    "sandbox": (
        f"{DOCUMENTS}:test_document_without_sandbox_opens_window",
        f"{DOCUMENTS}:test_document_without_sandbox_reads_another",
    ),
    "frame-src": (f"{DOCUMENTS}:test_document_without_frame_policy_follows_link",),
    "sanitizer": (f"{CONNECTIONS}:test_document_without_sanitizer_opens_connections",),
    "policy of documents": (f"{DOCUMENTS}:test_document_without_policy_sends_requests",),
    "frame-ancestors": (f"{ATTACKS}:test_frame_without_headers_shows_page",),
    "autoescape": (f"{WORDS}:test_page_without_escaping_runs_script",),
}
