"""Protocol exchanges on pages: the events of one retrieval as a sequence diagram, a table and JSON.

`ExchangeRecording` receives the same events as the options `-v` and `--trace`, and produces a
`RecordedExchange`. `make_planned_exchange` converts a plan of `explain` to another `RecordedExchange`.
`panel` converts the recorded exchange and the planned exchange to HTML. A page then shows the plan next to
the outcome.
"""
