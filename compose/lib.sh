# What up and down share; sourced, not run. They are run in the repository.
cd "$(dirname "$0")/.."

say() { printf 'compose: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# need_docker ends the script with advice when there is no engine or no compose.
need_docker() {
  command -v docker >/dev/null 2>&1 ||
    die "there is no program docker: install Docker, or on a bare Debian run .ci/docker-up as root (docs/compose.md)"
  docker version --format '{{.Server.Version}}' >/dev/null 2>&1 ||
    die "no Docker engine answers: start it (.ci/docker-up does on a bare Debian), or join the group that may use it (docs/compose.md)"
  docker compose version >/dev/null 2>&1 ||
    die "docker has no compose plugin: install docker-compose v2, or run .ci/docker-up as root (docs/compose.md)"
}

# project prints the project's name, which may come from the environment, .env or the file.
project() { docker compose config 2>/dev/null | sed -n 's/^name: //p'; }

# thaw: what is paused can be neither started nor stopped by compose.
thaw() {
  paused=$(docker ps -q --filter "label=com.docker.compose.project=$1" --filter status=paused)
  [ -z "$paused" ] || docker unpause $paused >/dev/null
}
