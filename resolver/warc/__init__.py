"""Archives of what was fetched, in the format that archives use: WARC 1.0 and 1.1 (ISO 28500).

What is in a file is a stranger's octets, whoever wrote it. It is read within bounds: `stretch` unpacks what
was packed, `head` reads what a record says of itself, `records` goes through a file from one end to the other
and tells what is damaged, `digests` and `inspection` hold a record to what it says, `check` a whole file.
Nothing here opens a file: whoever reads one hands over a `Source`.
"""
