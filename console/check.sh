#!/usr/bin/env bash
# What CI runs for the page: types, format, the pure parts, that `dist` is what the source builds, and the page in a browser. With ROWHOUSE=path/to/rowhouse also against a real server; without, only what needs none.
set -euo pipefail
cd "$(dirname "$0")"

PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund --loglevel=error
npx tsc --noEmit
npx prettier --check --log-level warn .
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npx vite build --outDir "$built" --emptyOutDir --logLevel warn
same() {
  diff -r -x '*.gz' dist "$built" && diff <(cd dist && find . | sort) <(cd "$built" && find . | sort) || return 1
  # Compressed by another release of zlib they may be other bytes of the same.
  local file
  for file in dist/assets/*.gz; do gunzip -c "$file" | cmp - "${file%.gz}" || return 1; done
}
same || { echo "console/dist is not what the source builds: run npm run build in console/ and commit it" >&2; exit 1; }
npx playwright test --project=unit --project=mock ${ROWHOUSE:+--project=server}
