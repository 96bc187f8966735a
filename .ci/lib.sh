# What docker-up and mysql-image share; sourced, not run. Runs in any sh. It sets what /etc/os-release says of this
# machine: VERSION_CODENAME, its Debian release.
. /etc/os-release

# The Debian mirror that apt on this machine already uses for its own release: prints "URI KEYRING".
mirror() {
  for mirror_list in /etc/apt/sources.list.d/*.sources; do
    [ -f "$mirror_list" ] || continue
    awk -v code="$VERSION_CODENAME" '
      function done_() { if (hit && uri != "") { print uri, key; found = 1; exit } uri = ""; key = ""; hit = 0 }
      /^[ \t]*$/ { done_(); next } /^#/ { next }
      tolower($1) == "uris:" { uri = $2 } tolower($1) == "signed-by:" { key = $2 }
      tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if ($i == code) hit = 1 }
      END { if (!found) done_() }' "$mirror_list"
  done
  [ -f /etc/apt/sources.list ] && awk -v code="$VERSION_CODENAME" '
    $1 == "deb" { sub(/\[[^]]*\] */, ""); if ($3 == code) { print $2, ""; exit } }' /etc/apt/sources.list
  return 0
}
