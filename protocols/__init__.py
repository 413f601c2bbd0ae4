"""The protocols of the RFCs: URL grammar, wire grammar and dialogue of each scheme of RFC 1738.

Here live machines and parsers only. Nothing in this package knows a policy, opens a socket or a file,
reads a clock, names trio or imports `resolver`; the standard library and h11 are all it uses. Only
`conversation` waits for anything: it awaits what the gate hands it.

Layers, each importing only downwards:
`errors < location < contract < wire < step < conversation < one folder per scheme`.

The words, wherever they stand, and in brackets where each is defined.

What a scheme is made of:

    Scheme            one row: what its protocol is, never what is allowed to it (scheme)
    Dialogue          a generator of steps, from the URL to the end of the transfer (step)
    Step              what a dialogue wants done: connect, send, receive, emit, copy, … (step)
    ideal             what a willing server would answer; with these a dialogue is its own plan
                      (step.Receive)
    Line              octets that may leave on a connection; only `wire` makes one (contract)
    Reader            a generator that takes one value out of a `Buffer`, within a limit (wire)
    Filter            a machine that turns the octets of a body into others (contract)
    Reply             the facts of what a URL leads to, and its body, while the connection lives (contract)
    Facts             what is known before the first octet of a body, from the dialogue to the caller
                      (contract)
    Moved             the object is elsewhere: where, and the alternatives to it (contract)
    Entry             one record of a listing: a directory, a menu, a group, a list of hits (location)

Its way out:

    Gate              the one way out of a retrieval: it knows its URL, and names no host (contract)
    Network           what the gates of one run share: policy, look-ups, trust, pool
                      (resolver.transfer.network)
    Admission         a URL that was judged, and what is judged for its sake later
                      (resolver.network.admission)
    Connector         opens what an admission covers, and connects to the address it judged
                      (resolver.network.connector)
    UrlGate           the gate of one URL, made of its admission (resolver.network.url_gate)
    StreamSettings    limits, trust and listeners of the one who uses a connection now
                      (resolver.network.stream_settings)

A connection that serves again:

    PooledConnection  one that earlier dialogues kept, or a new one; kept again if left in order
                      (contract)
    pool_key          what tells apart connections that may serve for one another (step.Acquire)
    state             what a dialogue says of its connection to the next one (contract.PooledConnection)
    FtpSessionState   the state of FTP's: who is logged in, and in which directory (ftp.control)
    DirectoryRoute    how a URL's directory is reached from there (ftp.control)
    ConnectionNotReusable a connection that was kept and cannot serve this URL after all (ftp.session)

A connection that several dialogues share:

    PipelineState     what they know of it in common; NNTP's is `NntpState` (contract)
    Slot              the place of one dialogue: start and end request, start and end response (contract)
    generation        counts how often the requests on their way became void (contract.PipelineState)
    RequestReissue    a request that became void, and has to be sent again (news.session)
    NewsNegotiation   reader mode, TLS and login, where a server wants them first (news.negotiation)

An exchange in datagrams, and what Prospero makes of it:

    DatagramExchange  one request and its reply, packet by packet, without I/O or clock (contract)
    SwitchAddress     go on with another address of the same server (contract)
    RedirectAddress   go on at another place, because the server said so (contract)
    CandidateAddresses the addresses of one server, until one of them answers (prospero.ardp)
    AccessMethod      one way in which an object can be had: ACCESS-METHOD (prospero.access_method)

What Gopher does without a status and a length:

    ErrorDetector     finds an error in what may be content, by its shape (gopher.reply)
    Completeness      what is known of whether a reply is whole (gopher.content)

What is allowed, and one retrieval:

    Policy            what a caller allows (resolver.policy.settings)
    Subject           what is judged: a URL, who chose it, and what led to it (resolver.policy.subject)
    Decision          what one rule says of a subject; a `Verdict` is the strictest of them
                      (resolver.policy.subject)
    ComponentRule     which octets a component of a URL may have, and how many (resolver.policy.schemes)
    RedirectPoint     where a peer said that the object has moved, and the alternatives left
                      (resolver.transfer.retrieval)
    Location          one of the places to have an object from (resolver.transfer.retry)
    RetryPolicy       how often a try follows another that brought nothing, and how soon
                      (resolver.transfer.settings)
    LimitedBody       a body under the limits of its retrieval (resolver.transfer.limits)
    StreamingResponse what the caller of `stream` has, while the connection lives
                      (resolver.transfer.streaming)
    Store             where octets go to stay: memory, standard output, a `PartialFile`
                      (resolver.transfer.streaming)
    PartialFile       a file that grows under a name of its own until it is whole
                      (resolver.files.partial_file)
"""
