#!/bin/bash
# Unpack the Debian servers for tests/servers, and the programs that read the output of manual/.
# No package is installed and no daemon starts. Several of these packages conflict, so each is unpacked
# into a separate folder.
#
# usage: unpack.sh [SERVER...]        (default: all of them)
#
# The target is $RESOLVE_SERVERS_ROOT, by default .servers next to the Makefile. The script needs Debian's
# apt-get and dpkg-deb, and non-empty package lists (apt-get update); it does not need root.
set -eu

cd "$(dirname "$0")/../.."
root=${RESOLVE_SERVERS_ROOT:-$PWD/.servers}

packages_of() {
    case $1 in
        gophernicus) echo gophernicus ;;
        pygopherd) echo pygopherd python3-simpletal ;;
        vsftpd) echo vsftpd ;;
        proftpd) echo proftpd-core proftpd-mod-crypto ;;
        pure-ftpd) echo pure-ftpd pure-ftpd-common ;;
        nginx) echo nginx-light ;;
        inn) echo inn2 inn2-inews ;;
        tinyproxy) echo tinyproxy-bin ;;
        dante) echo dante-server ;;
        zsh) echo zsh zsh-common ;;
        fish) echo fish fish-common ;;
        groff) echo groff-base ;;
        squid) echo squid-openssl squid-common squid-langpack ;;
        apache) echo apache2-bin ;;
        aria2) echo aria2 ;;  # with lftp for bench and tests/test_coming_from.py; wget2 for bench
        wget2) echo wget2 ;;
        lftp) echo lftp ;;
        telnetd) echo inetutils-telnetd ;;
        dictd) echo dictd dictfmt dictzip ;;
        fingerd) echo fingerd ;;
        molly-brown) echo molly-brown ;;
        screens) echo less vim-tiny ;;  # full-screen programs for telnet sessions
        *) echo "unpack.sh: no such server: $1" >&2; return 2 ;;
    esac
}

# apt finds the missing dependencies; --reinstall downloads the named packages even if they are
# installed. So packages_of names each package whose files a test looks for below the root; a dependency
# that is installed is not downloaded. Nothing is installed.
download() {
    local archives=$1 sandbox=()
    shift
    rm -rf "$archives"
    mkdir -p "$archives/partial"
    [ "$(id -u)" != 0 ] || sandbox=(-o APT::Sandbox::User=root)
    apt-get -qq -y --no-install-recommends --download-only --reinstall "${sandbox[@]}" \
        -o Debug::NoLocking=1 -o Acquire::Retries=3 -o Dir::Cache::Archives="$archives" install "$@"
}

unpack() {
    local server=$1 archives=$root/archives/$1 package packages
    [ ! -e "$root/$server/.complete" ] || return 0
    packages=$(packages_of "$server")
    # shellcheck disable=SC2086  # a list of words
    download "$archives" $packages
    rm -rf "${root:?}/$server"
    mkdir -p "$root/$server"
    for package in "$archives"/*.deb; do
        dpkg-deb -x "$package" "$root/$server"
    done
    touch "$root/$server/.complete"
    echo "$server: $root/$server"
}

[ $# -gt 0 ] || set -- gophernicus pygopherd vsftpd proftpd pure-ftpd nginx inn tinyproxy dante zsh fish groff squid apache telnetd dictd fingerd molly-brown screens
for server in "$@"; do
    unpack "$server"
done
