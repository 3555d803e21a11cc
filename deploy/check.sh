#!/usr/bin/env bash
# Runs the service and the image for real, with a server that is built already: ROWHOUSE=target/release/rowhouse deploy/check.sh [service] [image]
#
# Needs root, Debian's debootstrap, systemd-container, podman, runc and postgresql-client, and a mirror of Debian's packages; no registry of images. BASE=DIR keeps
# the Debian that both begin with from one run to the next. Takes some minutes and 3 GB. CI does not run it: it wants namespaces, control groups and mounts.
#
# service: boots a Debian whose systemd is process 1 of its namespaces, and holds deploy/systemd/rowhouse.service against docs/operating.md: verified, started when clients are
# served, the password from /etc/rowhouse/environment, io_uring and raised workers behind its filters, an end in order, rows there after stop, restart and kill -9, and no
# second try with options that are wrong.
# image: builds deploy/Dockerfile upon a Debian that stands in for its base images; in the first, a `cargo` that looks at the context and puts $ROWHOUSE where the build would.
# Then the same of the container: served, ended by SIGTERM with exit code 0, and its rows found by the next one on the volume.
#
# Both have networks of their own with nothing but a loopback. Not shown: `--ulimit nice=40` and the unit's limits where the machine has no CAP_SYS_RESOURCE, and cargo's build.
set -euo pipefail
cd "$(dirname "$0")/.."
rowhouse=$(realpath "${ROWHOUSE:?the server, for example target/release/rowhouse}")
work=$(mktemp -d /var/tmp/rowhouse-deploy.XXXXXX)
base=${BASE:-$work/base}
leader=

say() { printf '%s\n' "$*"; }
same() { # what, found, expected
  [ "$2" = "$3" ] || { say "FAILED: $1: found '$2', expected '$3'" >&2; exit 1; }
  say "ok: $1"
}
# For up to 30 s, until the command succeeds.
until_true() {
  local i
  for ((i = 0; i < 120; i++)); do "$@" >"$work/until" 2>&1 && return; sleep 0.25; done
  cat "$work/until" >&2
  return 1
}
store() { podman --root "$work/images" --runroot "$work/run" --storage-driver "${STORAGE_DRIVER:-overlay}" --runtime runc "$@"; }
clean_up() {
  if [ -n "$leader" ]; then
    kill -s RTMIN+4 "$leader" 2>/dev/null || true
    wait || true
    # What nspawn made beside itself, where no systemd had made it a group.
    find /sys/fs/cgroup/*/{payload,supervisor} -depth -type d -exec rmdir {} + 2>/dev/null || true
  fi
  [ ! -d "$work/images" ] || { store rm -af -t 0; store rmi -af; } >/dev/null 2>&1 || true
  umount -R "$work/images/overlay" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

[ -e "$base/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$base" "${MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap" 2>&1 || { tail "$work/debootstrap" >&2; exit 1; }

service() {
  local root=$work/root
  cp -a "$base" "$root"
  chroot "$root" sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends systemd systemd-sysv dbus procps' >"$work/apt" 2>&1
  install -m 0755 "$rowhouse" "$root/usr/local/bin/rowhouse"
  install -m 0644 deploy/systemd/rowhouse.service "$root/etc/systemd/system/rowhouse.service"
  install -d -m 0700 "$root/etc/rowhouse"
  environment() { printf 'ROWHOUSE_ADMIN_PASSWORD=from-environment\nROWHOUSE_OPTIONS=%s\n' "$1" | install -m 0600 /dev/stdin "$root/etc/rowhouse/environment"; }
  environment '--memory 256MiB --work-memory 128MiB'

  # nspawn's own filter lacks io_uring. It wants to keep sockets on a /run that is gone after a boot.
  unshare --mount sh -c '[ "$(stat -f -c %T /run)" = tmpfs ] || { mkdir -p /run/systemd; mount -t tmpfs none /run/systemd; }
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn --quiet --directory "$1" --boot --private-network --register=no --keep-unit --capability=all --system-call-filter=@aio --console=pipe' \
    sh "$root" >"$work/console" 2>&1 &
  local nspawn=$!
  until_true pgrep -P "$nspawn" systemd
  leader=$(pgrep -P "$nspawn" systemd)
  inside() { nsenter -t "$leader" -a -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
  sql() { nsenter -t "$leader" -n psql -qAt "$@"; }
  shows() { inside systemctl show -P "$1" rowhouse; }
  until_true inside systemctl is-system-running --wait

  same "systemd-analyze verify has nothing to say" "$(inside systemd-analyze verify /etc/systemd/system/rowhouse.service 2>&1)" ""
  inside systemd-analyze security --no-pager rowhouse.service | tail -n 1
  inside systemctl start rowhouse
  same "started means served" "$(sql postgres://admin:from-environment@127.0.0.1:5433/rowhouse -c 'SELECT 1')" 1
  sql postgres://admin:guess@127.0.0.1:5433/rowhouse -c 'SELECT 1' >/dev/null 2>&1 && { say "FAILED: any password will do" >&2; exit 1; }
  sql postgres://admin:from-environment@127.0.0.1:5433/rowhouse -c "CREATE TENANT acme OWNER acme PASSWORD 'pw'"
  sql postgres://acme:pw@127.0.0.1:5433/acme -c 'CREATE TABLE t (id int PRIMARY KEY)' -c 'INSERT INTO t VALUES (1)'
  rows() { sql postgres://acme:pw@127.0.0.1:5433/acme -c "${1:+INSERT INTO t VALUES ($1)}" -c 'SELECT count(*) FROM t'; }
  said() { inside journalctl -u rowhouse --no-pager -o cat | grep -c -- "$1" || true; }
  same "io_uring passes the filter" "$(said io_uring)" 1
  same "workers may be raised" "$(said 'without raised priority')" 0
  # Three queries want one worker, which goes before the one of them that it raises.
  for _ in 1 2 3; do sql postgres://admin:from-environment@127.0.0.1:5433/rowhouse -c 'SELECT count(*) FROM generate_series(1, 30000) a, generate_series(1, 60000) b WHERE (a * b) % 7 = 3' >/dev/null 2>&1 & done
  raised() { inside ps -eLo ni,comm | grep -qE '^ *-20 worker'; }
  until_true raised || { say "FAILED: no worker was raised" >&2; exit 1; }
  say "ok: and is, beside queries"

  inside systemctl stop rowhouse
  same "stopped in order" "$(shows ActiveState) $(shows Result) $(shows ExecMainStatus) $(said 'ended in order')" "inactive success 0 1"
  inside systemctl start rowhouse
  same "rows are there after a stop" "$(rows 2)" 2
  inside systemctl kill -s KILL rowhouse
  again() { [ "$(shows NRestarts) $(shows ActiveState)" = "1 active" ]; }
  until_true again
  same "started again after kill -9, with its rows" "$(rows 3)" 3
  inside systemctl restart rowhouse
  same "rows are there after a restart" "$(rows)" 3
  inside systemctl stop rowhouse
  environment '--memory rubbish'
  inside systemctl start rowhouse >/dev/null 2>&1 && { say "FAILED: started with a wrong option" >&2; exit 1; }
  sleep 3
  same "a wrong option is not tried again" "$(shows ActiveState) $(shows NRestarts)" "failed 0"
}

image() {
  local stand_in=$work/stand-in
  mkdir "$stand_in"
  tar -C "$base" -c . | store import -q - docker.io/library/debian:bookworm-slim >/dev/null
  cp "$rowhouse" "$stand_in/rowhouse"
  cat >"$stand_in/cargo" <<'CARGO'
#!/bin/sh -e
[ "$*" = "build --release --locked -p rowhouse" ]
ls Cargo.toml Cargo.lock crates/rowhouse/Cargo.toml console/dist/index.html >/dev/null
[ ! -e target ] && [ ! -e .git ] && [ ! -e console/node_modules ]
mkdir -p target/release && cp /opt/rowhouse target/release/rowhouse
CARGO
  chmod 0755 "$stand_in/cargo"
  printf 'FROM docker.io/library/debian:bookworm-slim\nCOPY rowhouse /opt/rowhouse\nCOPY cargo /usr/local/bin/cargo\n' >"$stand_in/Dockerfile"
  store build -q --network none -t docker.io/library/rust:1.95-bookworm "$stand_in" >/dev/null
  store build -q --pull=never --network none -f deploy/Dockerfile -t rowhouse . >/dev/null
  say "ok: deploy/Dockerfile builds"

  # podman asks for higher limits than a machine without CAP_SYS_RESOURCE gives.
  local limits=(--network none --ulimit nofile=16384:16384 --ulimit nproc=16384:16384)
  serve() { store run -d --name rowhouse -e ROWHOUSE_ADMIN_PASSWORD=secret -v rowhouse:/var/lib/rowhouse "${limits[@]}" --stop-timeout 120 rowhouse --memory 256MiB >/dev/null; }
  sql() { nsenter -t "$(store inspect -f '{{.State.Pid}}' rowhouse)" -n psql -qAt "$@"; }
  rows() { sql postgres://acme:pw@127.0.0.1:5433/acme -c "${1:+INSERT INTO t VALUES ($1)}" -c 'SELECT count(*) FROM t'; }
  serve
  until_true sql postgres://admin:secret@127.0.0.1:5433/rowhouse -c "CREATE TENANT acme OWNER acme PASSWORD 'pw'"
  sql postgres://acme:pw@127.0.0.1:5433/acme -c 'CREATE TABLE t (id int PRIMARY KEY)'
  same "the container serves" "$(rows 1)" 1
  same "as its own user, with nothing of others in its directory" "$(store exec rowhouse sh -c 'id -u; ls -A /var/lib/rowhouse | grep "^[.]"')" 999
  store stop rowhouse >/dev/null
  same "SIGTERM ends it in order" "$(store inspect -f '{{.State.ExitCode}}' rowhouse) $(store logs rowhouse 2>/dev/null | grep -c 'ended in order')" "0 1"
  store rm rowhouse >/dev/null
  serve
  until_true rows
  same "another one finds the rows on the volume" "$(rows 2)" 2
  store kill -s KILL rowhouse >/dev/null
  store wait rowhouse >/dev/null
  store start rowhouse >/dev/null
  until_true rows
  same "rows are there after a kill" "$(rows)" 2
  store stop rowhouse >/dev/null
  same "its files verify" "$(store run --rm "${limits[@]}" --entrypoint rowhouse -v rowhouse:/var/lib/rowhouse rowhouse verify --data /var/lib/rowhouse | tail -n 1)" clean
}

for part in ${*:-service image}; do
  case $part in service | image) ;; *) say "deploy/check.sh [service] [image]" >&2; exit 2 ;; esac
  say "== $part"
  "$part"
done
