"""Protocol exchanges on pages: the events of one retrieval as a sequence diagram, a table and JSON.

`ExchangeRecording` receives the same events as the options `-v` and `--trace`, and produces a
`RecordedExchange`. `make_planned_exchange` converts a plan of `explain` to another `RecordedExchange`.
`panel` converts the recorded and the planned exchange to HTML, so that a page shows the plan and the outcome
together.
"""
