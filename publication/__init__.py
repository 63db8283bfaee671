"""What may be published: releases of decodings, synthetic rows, and sums of small cells.

`publication.release` makes releases of decoded estimates. The other sub-packages work on tables
that their holder has in clear (strata, counters, exports). They add nothing to the guarantee of a
report, which the device gives; `docs/publication.md` says which part protects against what.
"""
