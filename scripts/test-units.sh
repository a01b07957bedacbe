#!/bin/sh
# Tests the units in deploy/systemd: systemd knows all of their lines, their exposure (systemd-analyze security) has not
# risen, and the service works with them. docs/hardening.md describes what limits them.
#
#   sh scripts/test-units.sh      # needs systemd-analyze; as root also: systemd, git and curl
#
# Variables: PROGRAM, the built program (target/debug/journeyman); SYSTEM, the root directory of a system with another
# version of systemd (/).
set -eu
cd "$(dirname "$0")/.."

# The highest exposure of each unit, times ten. Lower it with the exposure.
highest_of_system=53
highest_of_user=78

program=${PROGRAM:-${CARGO_TARGET_DIR:-target}/debug/journeyman}
system=${SYSTEM:-/}
command -v systemd-analyze >/dev/null 2>&1 || { echo "test-units: IGNORED: this machine has no systemd-analyze"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 711 "$work"

for unit in journeyman:$highest_of_system journeyman.user:$highest_of_user; do
    highest=${unit#*:}
    unit=deploy/systemd/${unit%:*}.service
    sed 's#^ExecStart=.*#ExecStart=/bin/true#' "$unit" > "$work/journeyman.service"
    systemd-analyze verify --man=no "$work/journeyman.service" > "$work/complaints" 2>&1 || true
    [ ! -s "$work/complaints" ] || { cat "$work/complaints"; exit 1; }
    systemd-analyze security --offline=true --no-pager --threshold="$highest" "$unit" > "$work/table" ||
        { cat "$work/table"; echo "test-units: the exposure of $unit is higher than $highest tenths" >&2; exit 1; }
    echo "$unit: $(tail -n 1 "$work/table")"
done

if [ "$(id -u)" != 0 ] || [ ! -x "$system/lib/systemd/systemd" ] || [ ! -x "$program" ]; then
    echo "test-units: IGNORED: the service in the unit; this needs root, systemd, and the built program"
    exit 0
fi

# systemd starts the units of a folder, and this one, which ends it.
units=$work/units
mkdir -p "$units/journeyman.service.d" "$work/out"
cp deploy/systemd/journeyman.service "$units/"
cp scripts/units-commands.sh "$work/out/commands.sh"
cat > "$units/journeyman.service.d/test.conf" <<'END'
[Unit]
DefaultDependencies=no
[Service]
ReadWritePaths=-/out
StandardOutput=append:/out/service
StandardError=append:/out/service
END
cat > "$units/test.service" <<'END'
[Unit]
DefaultDependencies=no
Wants=journeyman.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/sh /out/commands.sh
TimeoutStartSec=120
StandardOutput=append:/out/log
StandardError=append:/out/log
END
printf '[Unit]\nRequires=test.service\n' > "$units/test.target"
sh scripts/boot-units.sh "$system" "$units" "$work/out" "$program" > "$work/boot" 2>&1 || true
if ! grep -q '^passed$' "$work/out/log" 2>/dev/null; then
    cat "$work/boot" "$work/out/service" "$work/out/log" 2>/dev/null || true
    echo "test-units: the service does not work in its unit" >&2
    exit 1
fi
cat "$work/out/log"
