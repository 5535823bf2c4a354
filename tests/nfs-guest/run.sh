#!/bin/sh
# The node agent against NFS for real: a virtual machine with Debian's kernel, its NFS server and its NFS client, all in memory. Prints what was
# tried and a verdict, and ends with 0 when all went well.
#
#     tests/nfs-guest/run.sh [DIRECTORY]
#
# Needs Debian 12 on amd64 (apt-get with its lists, dpkg), some 3 GB of memory and 1 GB in DIRECTORY (default: a new one in $TMPDIR, deleted at the end).
# Packages are downloaded and unpacked in DIRECTORY; nothing is installed. Needs no root.
#   ORLOP    the binary [target/debug/orlop]; its libraries have to be those of Debian 12
#   ACCEL    how qemu runs the machine [tcg: it works everywhere; kvm is faster]
#   ONLY     names of parts that are played, divided by commas [all of guest.py]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
orlop=${ORLOP:-$here/../../target/debug/orlop}
case ${1:-} in
'') dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT ;;
*) mkdir -p "$1"; dir=$(cd "$1" && pwd) ;;
esac
guest="nfs-kernel-server nfs-common mount util-linux busybox-static kmod findutils coreutils dash iproute2 libpython3.11-stdlib python3"

# unpack NAME STATUS PACKAGE...: packages with all that they need besides what STATUS has.
unpack() {
    name=$1 status=$2
    shift 2
    test ! -e "$dir/$name.done" || return 0
    mkdir -p "$dir/archives-$name/partial" "$dir/$name"
    apt-get -qq -y --no-install-recommends --download-only -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" \
        -o Dir::State::status="$status" -o Dir::Cache::archives="$dir/archives-$name" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= install "$@" >"$dir/$name.log" 2>&1 ||
        { cat "$dir/$name.log"; exit 2; }
    for package in "$dir/archives-$name"/*.deb; do dpkg -x "$package" "$dir/$name"; done
    rm -r "$dir/archives-$name"
    touch "$dir/$name.done"
}

: >"$dir/empty"
unpack host /var/lib/dpkg/status qemu-system-x86
unpack root "$dir/empty" $guest
if [ ! -e "$dir/kernel.done" ]; then
    image=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9]\)/\1/p')
    mkdir -p "$dir/kernel"
    (cd "$dir" && apt-get -qq download "$image" >kernel.log 2>&1) || { cat "$dir/kernel.log"; exit 2; }
    dpkg -x "$dir/$image"_*.deb "$dir/kernel"
    rm "$dir/$image"_*.deb
    touch "$dir/kernel.done"
fi

# What the machine begins with: the packages, some modules, the binary, and what is played.
root=$dir/root
if [ ! -e "$dir/modules.done" ]; then
    (cd "$root" && rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/perl* usr/lib/x86_64-linux-gnu/perl* \
        usr/share/i18n usr/lib/systemd usr/lib/python3.11/test)
    version=$(ls "$dir/kernel/lib/modules")
    modules=lib/modules/$version
    mkdir -p "$root/$modules"
    for part in fs/nfs fs/nfsd fs/nfs_common fs/lockd fs/fscache fs/netfs net/sunrpc net/dns_resolver drivers/net/veth.ko lib crypto; do
        test ! -e "$dir/kernel/$modules/kernel/$part" ||
            (cd "$dir/kernel" && find "$modules/kernel/$part" -name '*.ko' -exec cp --parents {} "$root" \;)
    done
    cp "$dir/kernel/$modules"/modules.order "$dir/kernel/$modules"/modules.builtin* "$root/$modules"
    # Its name says what it does, and the link of that name leads out of the directory.
    ln -sf "$root/bin/kmod" "$dir/depmod"
    LD_LIBRARY_PATH=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu "$dir/depmod" -b "$root" "$version"
    touch "$dir/modules.done"
fi
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/etc" "$root/root" "$root/usr/local/bin"
strip -S -o "$root/usr/local/bin/orlop" "$orlop" 2>/dev/null || cp "$orlop" "$root/usr/local/bin/orlop"
cp "$here/guest.py" "$root/guest.py"
cp "$here/init.sh" "$root/init"
chmod 755 "$root/init" "$root/usr/local/bin/orlop"
(cd "$root" && find . | bin/busybox cpio -o -H newc 2>/dev/null) >"$dir/initrd"

version=$(ls "$dir/kernel/lib/modules")
LD_LIBRARY_PATH=$dir/host/usr/lib/x86_64-linux-gnu:$dir/host/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH
timeout "${TIMEOUT:-1500}" "$dir/host/usr/bin/qemu-system-x86_64" -accel "${ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 2560 \
    -nodefaults -nographic -no-reboot -serial stdio -L "$dir/host/usr/share/qemu" -L "$dir/host/usr/share/seabios" \
    -kernel "$dir/kernel/boot/vmlinuz-$version" -initrd "$dir/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off only=${ONLY:-all}" </dev/null | tr -d '\r' | tee "$dir/said" | grep -a '^==' || :
test "$(grep -a -c '^== VERDICT: well' "$dir/said")" = 1 || { echo "not well; what the machine said last:"; tail -n 60 "$dir/said"; exit 1; }
