#!/bin/sh
# Makes the packages of a built program in target/packages: an archive, a Debian package, a bill of materials, and
# SHA256SUMS of all files there. The same program and sources give the same bytes.
#
#   sh scripts/package.sh                                       # packages target/debug/journeyman, for tests
#   PROGRAM=target/dist/journeyman sh scripts/package.sh        # packages a release build
#
# Variables:
#   PROGRAM            the program to package (target/debug/journeyman)
#   TARGET             the target that it was built for (the one of this machine)
#   TOOL               a program of the same version that runs on this machine, for completions and manual pages (PROGRAM)
#   OUT                the folder for the packages (target/packages)
#   LEVEL              the level of compression, 0 to 9 (6)
#   SOURCE_DATE_EPOCH  the time of all files in the packages (that of the last commit)
set -eu
cd "$(dirname "$0")/.."
umask 022

target_dir=${CARGO_TARGET_DIR:-target}
program=${PROGRAM:-$target_dir/debug/journeyman}
target=${TARGET:-$(uname -m)-unknown-linux-gnu}
out=${OUT:-$target_dir/packages}
level=${LEVEL:-6}
notices=$target_dir/THIRD-PARTY-NOTICES.txt
[ -x "$program" ] || { echo "package: $program is missing; build it first: cargo build --locked" >&2; exit 1; }
[ -s "$notices" ] || { echo "package: $notices is missing; write it first: make notices" >&2; exit 1; }
case $target in
x86_64-*) arch=amd64 ;;
aarch64-*) arch=arm64 ;;
*) echo "package: there are no packages for $target" >&2; exit 1 ;;
esac
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log --max-count=1 --no-show-signature --format=%ct)}
export SOURCE_DATE_EPOCH PYTHONDONTWRITEBYTECODE=1
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sets all times in a folder to that of the packages.
settle() {
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# The parts.
name=journeyman-$version-$target
parts=$work/$name
mkdir -p "$parts/completions" "$parts/systemd" "$work/bin" "$out"
# Release builds have no symbols; others are several times as large with them. The first of these knows all machines.
if command -v llvm-strip >/dev/null 2>&1; then
    llvm-strip -o "$parts/journeyman" "$program"
elif [ "$target" = "$(uname -m)-unknown-linux-gnu" ]; then
    strip -o "$parts/journeyman" "$program"
else
    cp "$program" "$parts/journeyman"
fi
chmod 755 "$parts/journeyman"
# The scripts of shells name the program as it is found on the search path.
ln -s "$(realpath "${TOOL:-$program}")" "$work/bin/journeyman"
PATH=$work/bin:$PATH
named=$(journeyman --version | cut -d ' ' -f 2)
[ "$named" = "$version" ] || { echo "package: $program has version $named, not $version; build it again" >&2; exit 1; }
journeyman completions bash > "$parts/completions/journeyman.bash"
journeyman completions zsh > "$parts/completions/_journeyman"
journeyman completions fish > "$parts/completions/journeyman.fish"
if journeyman man --help >/dev/null 2>&1; then
    journeyman man --dir "$parts/man" >/dev/null
fi
cp LICENSE README.md CHANGELOG.md deploy/journeyman.toml "$parts/"
cp "$notices" "$parts/THIRD-PARTY-NOTICES.txt"
cp deploy/systemd/journeyman.service deploy/systemd/journeyman.user.service "$parts/systemd/"
python3 scripts/sbom.py "$target" > "$parts/journeyman.sbom.json"
chmod 644 "$parts/journeyman.sbom.json"

# The archive, and the bill of materials.
settle "$parts"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" |
    gzip -n "-$(( level == 0 ? 1 : level ))" > "$out/$name.tar.gz"
cp "$parts/journeyman.sbom.json" "$out/$name.sbom.json"

# The Debian package.
root=$work/deb
doc=$root/usr/share/doc/journeyman
install -D -m 755 "$parts/journeyman" "$root/usr/bin/journeyman"
install -D -m 640 deploy/journeyman.toml "$root/etc/journeyman/journeyman.toml"
install -D -m 644 "$parts/completions/journeyman.bash" "$root/usr/share/bash-completion/completions/journeyman"
install -D -m 644 "$parts/completions/_journeyman" "$root/usr/share/zsh/vendor-completions/_journeyman"
install -D -m 644 "$parts/completions/journeyman.fish" "$root/usr/share/fish/vendor_completions.d/journeyman.fish"
for page in "$parts"/man/*.1; do
    [ -e "$page" ] || continue
    install -D -m 644 "$page" "$root/usr/share/man/man1/$(basename "$page")"
    gzip -n9 "$root/usr/share/man/man1/$(basename "$page")"
done
install -D -m 644 deploy/debian/copyright "$doc/copyright"
install -m 644 CHANGELOG.md README.md "$parts/THIRD-PARTY-NOTICES.txt" "$parts/journeyman.sbom.json" "$doc/"
{
    printf 'journeyman (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$version"
    sed -n "s/^Maintainer: \(.*\)/ -- \1  $(LC_ALL=C date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")/p" deploy/debian/control
} > "$doc/changelog"
gzip -n9 "$doc/changelog" "$doc/CHANGELOG.md" "$doc/THIRD-PARTY-NOTICES.txt" "$doc/journeyman.sbom.json"
# The units of the package run the packaged program; that of the system reads the packaged configuration file.
mkdir -p "$root/lib/systemd/system" "$root/usr/lib/systemd/user"
awk '/^ExecStart=/ { print "ExecStart=/usr/bin/journeyman serve"
                     print "Environment=JOURNEYMAN_CONFIG=/etc/journeyman/journeyman.toml"; next } !/^#/' \
    deploy/systemd/journeyman.service > "$root/lib/systemd/system/journeyman.service"
awk '/^ExecStart=/ { print "ExecStart=/usr/bin/journeyman serve"; next } !/^#/' \
    deploy/systemd/journeyman.user.service > "$root/usr/lib/systemd/user/journeyman.service"
mkdir "$root/DEBIAN"
install -m 755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$root/DEBIAN/"
echo /etc/journeyman/journeyman.toml > "$root/DEBIAN/conffiles"
libc=$(readelf -W --version-info "$parts/journeyman" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$arch/; s/@LIBC@/${libc#GLIBC_}/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f 1)/" deploy/debian/control > "$root/DEBIAN/control"
(cd "$root" && find etc lib usr -type f | LC_ALL=C sort | xargs md5sum) > "$root/DEBIAN/md5sums"
settle "$root"
dpkg-deb --root-owner-group -Zxz "-z$level" --build "$root" "$out/journeyman_${version}_$arch.deb" >/dev/null

# Files that belong to all targets.
cp deploy/install.sh "$out/"
(cd "$out" && sha256sum -- *.tar.gz *.deb *.sbom.json install.sh > SHA256SUMS)
sum() {
    awk -v file="journeyman-$version-$1-unknown-linux-gnu.tar.gz" '$2 == file { print $1 }' "$out/SHA256SUMS"
}
if [ -n "$(sum x86_64)" ] && [ -n "$(sum aarch64)" ]; then
    sh scripts/formula.sh "$version" "$(sum x86_64)" "$(sum aarch64)" > "$out/journeyman.rb"
fi
ls -l "$out"
