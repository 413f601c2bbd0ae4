"""From a judged URL to a finished value: hops, tries, limits, saving, proof."""
