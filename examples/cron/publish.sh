#!/bin/sh
# publish.sh FIRST LAST: decode the closed days of a week, publish them, and prove that it is signed.
set -eu
rappor decode --collector "$COLLECTOR" --metric homepage --from "$1" --to "$2" \
    --candidates pages.txt -o "decoded/$1"
earlier=""
for release in releases/*/; do
    [ -d "$release" ] && earlier="$earlier --earlier $release"
done
mkdir -p releases
rappor release build "decoded/$1" --policy release.toml -o "releases/$1" $earlier \
    --signing-key keys/release-key.pem --public-key keys/release-key.pub.pem
rappor release verify "releases/$1" --public-key keys/release-key.pub.pem
