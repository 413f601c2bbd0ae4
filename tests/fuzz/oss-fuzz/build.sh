#!/bin/bash -eu
# A fuzzer and a corpus for each harness, in $OUT.
pip3 install . trustme brotli h2 zstandard lxml warcio
for name in $(python3 -m tests.fuzz); do
    fuzzer=$SRC/fuzz_$name.py
    printf 'import sys\nfrom tests.fuzz.search import search\nsearch("%s", *sys.argv[1:])\n' "$name" >"$fuzzer"
    compile_python_fuzzer "$fuzzer" --paths . --add-data fixtures:fixtures
    python3 -c "from pathlib import Path; from tests.fuzz.search import collect_seeds; collect_seeds('$name', Path('build/seeds'))"
    (cd "build/seeds/$name" && zip -q "$OUT/fuzz_${name}_seed_corpus.zip" ./*)
done
