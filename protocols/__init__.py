"""URL grammar, wire grammar and protocol exchange of each scheme of RFC 1738.

This package contains parsers and state machines without I/O (sans-I/O). The code opens no socket or file,
reads no clock, and does not import trio or `resolver`. Its only dependency is h11. Only the package
`conversation` has async functions. They await the `Gate`.

A layer imports only layers to its left:
`errors < location < contract < wire < step < conversation < one folder per scheme`.

Terms, with the defining module in parentheses.

Parts of a scheme:

    Scheme            the definition of one protocol, without permissions (scheme)
    Dialogue          a generator of steps, from the URL to the end of the transfer (step)
    Step              an operation that a dialogue requests: connect, send, receive, emit, copy, … (step)
    ideal             the expected reply of a server; `explain` runs a dialogue with these replies
                      (step.Receive)
    Line              bytes that may be sent on a connection; only `wire` creates them (contract)
    Reader            a generator that parses one value from a `Buffer`, within a limit (wire)
    Filter            an incremental conversion of the bytes of a body (contract)
    Reply             the metadata of an object and its body, while the connection is open (contract)
    Facts             the metadata known before the first byte of a body, for the caller
                      (location)
    Moved             the new location of an object and its alternatives (contract)
    Entry             one record of a listing: a directory, a menu, a group, a list of hits (location)

Outbound connections:

    Gate              the only network access of a retrieval; a gate connects only to the host of its URL
                      (contract)
    Network           the state that the gates of one run share: policy, DNS lookups, trust, pool
                      (resolver.transfer.network)
    Admission         a URL that the policy allowed, with the checks of its addresses and connections
                      (resolver.network.admission)
    Connector         opens the connections of an admission, to the checked address
                      (resolver.network.connector)
    UrlGate           the gate of one URL, created from its admission (resolver.network.url_gate)
    StreamSettings    limits, trust and listeners of the dialogue that uses a connection
                      (resolver.network.stream_settings)

A pooled connection:

    PooledConnection  a new connection, or a keep-alive connection from the connection pool (contract)
    pool_key          the key of interchangeable connections (step.Acquire)
    state             data for the next dialogue on the same connection (contract.PooledConnection)
    Control           an FTP control connection, and the state of the server (ftp.control)
    DirectoryRoute    the path from the working directory to the directory of a URL (ftp.control)
    ConnectionNotReusable a pooled connection that cannot serve this URL (ftp.session)

A connection that several dialogues share:

    PipelineState     the state that the dialogues share; for NNTP, `NntpState` (contract)
    Slot              the position of one dialogue: start and end of its request and response (contract)
    generation        the number of times that pending requests were discarded (contract.PipelineState)
    RequestReissue    a request that was discarded and must be sent again (news.session)
    NewsNegotiation   reader mode, TLS and login, if the server requires them (news.negotiation)

Datagrams, as used by Prospero:

    DatagramExchange  one request and its reply, packet by packet, without I/O or clock (contract)
    SwitchAddress     the action to continue with another address of the same server (contract)
    RedirectAddress   the action to continue with another address and port, as the server directed (contract)
    CandidateAddresses the addresses of one server, tried until an address responds (prospero.ardp)
    AccessMethod      a method to retrieve an object: ACCESS-METHOD (prospero.access_method)

Gopher (a response has neither a status code nor a length):

    ErrorDetector     the heuristic that recognizes an error message in a response (gopher.reply)
    Completeness      the evidence that a response is complete, not truncated (gopher.content)

Permissions, and one retrieval:

    Policy            the permissions that the caller grants (resolver.policy.settings)
    Subject           the input of a check: a URL, its origin and its referrer (resolver.policy.subject)
    Decision          the decision of one rule on a subject; a `Verdict` has the strictest decisions
                      (resolver.policy.subject)
    ComponentRule     the allowed bytes and length of a URL component (resolver.policy.schemes)
    RedirectPoint     a redirect in the chain, and the alternative locations that were not tried yet
                      (resolver.transfer.retrieval)
    Location          a location of an object: the requested URL or a mirror (resolver.transfer.retry)
    RetryPolicy       the number of attempts without progress, and the delay between attempts
                      (resolver.transfer.settings)
    LimitedBody       a body under the limits of its retrieval (resolver.transfer.limits)
    StreamingResponse the response of `stream`, while the connection is open (resolver.transfer.streaming)
    Store             the destination of a body: memory, standard output, a `PartialFile`
                      (resolver.transfer.streaming)
    PartialFile       a file that grows under a temporary name until it is complete
                      (resolver.files.partial_file)
"""
