"""URL grammar, wire grammar and protocol exchange of each scheme of RFC 1738.

This package contains parsers and state machines. It does not know a policy, open a socket or a file, read a
clock, name trio or import `resolver`. It uses the standard library and h11 only. Only `conversation` has
async code, which awaits the operations of the gate.

Layers, each importing only downwards:
`errors < location < contract < wire < step < conversation < one folder per scheme`.

Terms, with the defining module in brackets.

Parts of a scheme:

    Scheme            the definition of one protocol, without permissions (scheme)
    Dialogue          a generator of steps, from the URL to the end of the transfer (step)
    Step              an operation that a dialogue requests: connect, send, receive, emit, copy, … (step)
    ideal             the expected reply of a server; with these replies a dialogue is its own plan
                      (step.Receive)
    Line              bytes that may be sent on a connection; only `wire` creates them (contract)
    Reader            a generator that takes one value out of a `Buffer`, within a limit (wire)
    Filter            a machine that converts the bytes of a body (contract)
    Reply             the metadata of an object and its body, while the connection is open (contract)
    Facts             the metadata known before the first byte of a body, for the caller
                      (contract)
    Moved             the new location of an object and its alternatives (contract)
    Entry             one record of a listing: a directory, a menu, a group, a list of hits (location)

Outbound connections:

    Gate              the only network access of a retrieval: it knows its URL, and takes no host names
                      (contract)
    Network           the state that the gates of one run share: policy, DNS lookups, trust, pool
                      (resolver.transfer.network)
    Admission         a URL that the policy admitted, and the later checks that depend on it
                      (resolver.network.admission)
    Connector         opens the connections of an admission, to the checked address
                      (resolver.network.connector)
    UrlGate           the gate of one URL, made of its admission (resolver.network.url_gate)
    StreamSettings    limits, trust and listeners of the dialogue that uses a connection
                      (resolver.network.stream_settings)

A pooled connection:

    PooledConnection  a connection that earlier dialogues released, or a new connection; it is pooled
                      again if it is left in order (contract)
    pool_key          the key of interchangeable connections (step.Acquire)
    state             the information on a connection for its next dialogue (contract.PooledConnection)
    FtpSessionState   the state of an FTP connection: its user and its directory (ftp.control)
    DirectoryRoute    the path from that directory to the directory of a URL (ftp.control)
    ConnectionNotReusable a pooled connection that cannot serve this URL (ftp.session)

A connection that several dialogues share:

    PipelineState     the state common to these dialogues; NNTP's is `NntpState` (contract)
    Slot              the position of one dialogue: start and end of its request and response (contract)
    generation        counts how often the pending requests were discarded (contract.PipelineState)
    RequestReissue    a request that was discarded and must be sent again (news.session)
    NewsNegotiation   reader mode, TLS and login, if a server requires them first (news.negotiation)

An exchange in datagrams, and its use by Prospero:

    DatagramExchange  one request and its reply, packet by packet, without I/O or clock (contract)
    SwitchAddress     continue with another address of the same server (contract)
    RedirectAddress   continue with another host and port, as the server directed (contract)
    CandidateAddresses the addresses of one server, until one of them answers (prospero.ardp)
    AccessMethod      one method to retrieve an object: ACCESS-METHOD (prospero.access_method)

Gopher, which has neither a status nor a length:

    ErrorDetector     decides by the shape of a reply whether it is an error (gopher.reply)
    Completeness      the evidence that a reply is complete (gopher.content)

Permissions, and one retrieval:

    Policy            the permissions that a caller gives (resolver.policy.settings)
    Subject           the input of a check: a URL, its origin and its referrer (resolver.policy.subject)
    Decision          the decision of one rule on a subject; a `Verdict` is the strictest of them
                      (resolver.policy.subject)
    ComponentRule     the bytes and the length that a component of a URL may have (resolver.policy.schemes)
    RedirectPoint     the hop at which a peer reported a new location, and the alternatives left
                      (resolver.transfer.retrieval)
    Location          one of the locations of an object (resolver.transfer.retry)
    RetryPolicy       the number of tries without progress, and the delay between them
                      (resolver.transfer.settings)
    LimitedBody       a body under the limits of its retrieval (resolver.transfer.limits)
    StreamingResponse the response of `stream`, while the connection is open (resolver.transfer.streaming)
    Store             the destination of a body: memory, standard output, a `PartialFile`
                      (resolver.transfer.streaming)
    PartialFile       a file that grows under a temporary name until it is complete
                      (resolver.files.partial_file)
"""
