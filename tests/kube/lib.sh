# Sourced by the tests that need m87 on a real cluster with a node. A test is:
#
#   . "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#   up NAME PORT [FLAG...]       # the script runs again inside a cluster of its own with m87 in it; the cluster ends with the script
#   tenant team-a                # a namespace where m87 may run tools
#   check "what must hold" CMD...
#   finish                       # "N passed, M failed"; succeeds only if something was checked and all of it held
#
# M87_STATIC is the static m87 that is tested (built by tests/cluster/image if unset). M87_LONG=1 multiplies repetitions. M87_KEEP=1
# leaves the cluster up afterwards, for looking around: tests/cluster/cluster exec kubectl ...
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cluster=$root/tests/cluster/cluster
home=m87-system
passed=0 failed=0
# What a slow and shared machine may need for a thing that is done in seconds.
patience=${M87_PATIENCE:-300}

# -- the cluster ------------------------------------------------------------------------------------------------------------------

# on_cluster NAME PORT [FLAG...]: runs the script again inside a new cluster, with images loaded but nothing installed, and takes the
# cluster down. Inside, it makes `m87`, `kubectl`, `helm`, $M87_IMAGE, $M87_TOOL_IMAGE and the folder $work known.
on_cluster() {
  if [ -z "${M87_TEST_INSIDE:-}" ]; then
    export M87_CLUSTER_NAME=${M87_CLUSTER_NAME:-$1} M87_CLUSTER_PORT=${M87_CLUSTER_PORT:-$2} M87_TEST_INSIDE=1
    shift 2
    M87_STATIC=${M87_STATIC:-$("$root/tests/cluster/image" --build)} || exit 1
    export M87_STATIC
    M87_TEST_WORK=$(mktemp -d)
    export M87_TEST_WORK
    trap 'take_down' EXIT
    "$cluster" up --nodes "$@" || exit 1
    "$cluster" exec bash "$0" "${script_arguments[@]}"
    exit
  fi
  work=$M87_TEST_WORK
  mkdir -p "$work/bin"
  ln -sf "$(realpath "$M87_STATIC")" "$work/bin/m87"
  ln -sf m87 "$work/bin/kubectl-m87"
  export PATH=$work/bin:$PATH
  trap 'end_of_test' EXIT
  M87_IMAGE=$(m87_image) && M87_TOOL_IMAGE=$(tool_image) || { echo "the images could not be loaded" >&2; exit 1; }
}
script_arguments=("$@")

take_down() {
  if [ -n "${M87_KEEP:-}" ]; then
    echo "kept: M87_CLUSTER_NAME=$M87_CLUSTER_NAME M87_CLUSTER_PORT=$M87_CLUSTER_PORT $cluster exec ..., files in $M87_TEST_WORK" >&2
  else
    "$cluster" down
    rm -rf "$M87_TEST_WORK"
  fi
}
# No process of a test outlives it.
end_of_test() { jobs -p | xargs -r kill 2> /dev/null || true; }

# m87_image [TAG [NAME=FILE...]]: loads the tested binary as an image, with files beside it if another digest is wanted; prints it.
m87_image() {
  local tag=${1:-test}; shift || true
  "$cluster" load "m87.local/m87:$tag" "$M87_STATIC" /usr/bin/m87 "$@"
}
# tool_image: busybox with all its applets, which is what policy/ needs.
tool_image() {
  local busybox applet applets=()
  busybox=$(command -v busybox) || { echo "busybox-static is missing" >&2; return 1; }
  for applet in $("$busybox" --list); do [ "$applet" = busybox ] || applets+=("/bin/$applet->busybox"); done
  "$cluster" load m87.local/busybox:test "$busybox" /bin/busybox "${applets[@]}"
}

# chart VERB [FLAG...]: helm install or upgrade of m87 with the tested images.
chart() {
  local verb=$1; shift
  helm "$verb" m87 "$root/charts/m87" -n $home --set "image.repository=${M87_IMAGE%@*},image.digest=${M87_IMAGE#*@}" \
    --set "tools.image=$M87_TOOL_IMAGE" "$@"
}
crds() { helm install m87-crds "$root/charts/m87-crds" -n $home --create-namespace 2>&1; }

# install [FLAG...]: both charts, waited for.
install() {
  crds > /dev/null &&
    chart install --wait --timeout 10m "$@" > "$work/install" || { kubectl -n $home get pods; diagnose; echo "m87 could not be installed" >&2; exit 1; }
}
# up NAME PORT [FLAG...]: a cluster with m87 in it. FLAGs are of `cluster up`; helm's go into $helm_flags, an array, before.
up() { on_cluster "$@"; install "${helm_flags[@]}"; }
helm_flags=()

# tenant NAMESPACE...: made if it is not there, and bound.
tenant() {
  local namespace
  for namespace; do
    kubectl get namespace "$namespace" > /dev/null 2>&1 || kubectl create namespace "$namespace" > /dev/null
    m87 tenant "$namespace" | kubectl apply -f - > /dev/null || return 1
  done
}
# What helps to understand a failure.
diagnose() { kubectl -n $home logs statefulset/m87 --tail=40 2>&1 || true; }

# -- checks -----------------------------------------------------------------------------------------------------------------------

say() { printf -- '-- %s\n' "$*"; }
hold() { passed=$((passed + 1)); printf 'ok      %s\n' "$1"; }
broke() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$1"; printf '%s\n' "${2:-}" | head -60 | sed 's/^/        /'; }

# check WHAT CMD...: it succeeds.
check() {
  local what=$1 out; shift
  if out=$("$@" 2>&1); then hold "$what"; else broke "$what" "$out"; fi
}
# refused WHAT PATTERN CMD...: it fails, and says PATTERN (extended regular expression).
refused() {
  local what=$1 pattern=$2 out; shift 2
  if out=$("$@" 2>&1); then broke "$what" "it was allowed: $out"
  elif grep -qE -- "$pattern" <<< "$out"; then hold "$what"
  else broke "$what" "it was refused, but without /$pattern/: $out"; fi
}
# same WHAT EXPECTED ACTUAL
same() { if [ "$2" = "$3" ]; then hold "$1"; else broke "$1" "expected: $2"$'\n'"is:       $3"; fi; }
# has WHAT PATTERN TEXT
has() { if grep -qE -- "$2" <<< "$3"; then hold "$1"; else broke "$1" "without /$2/: $3"; fi; }
# until_ok SECONDS CMD...: polls; succeeds once CMD does, says CMD's last output if it never does.
until_ok() {
  local until=$((SECONDS + $1)) out; shift
  until out=$("$@" 2>&1); do
    [ $SECONDS -lt $until ] || { printf 'not within its time: %s\n%s\n' "$*" "$out"; return 1; }
    sleep 0.5
  done
}
# eventually WHAT CMD...: it succeeds within $patience seconds. becomes WHAT EXPECTED CMD...: it prints that, within that time.
eventually() { local what=$1; shift; check "$what" until_ok "$patience" "$@"; }
becomes() {
  local what=$1 expected=$2 is until=$((SECONDS + patience)); shift 2
  while is=$("$@" 2>&1); [ "$is" != "$expected" ]; do
    if [ $SECONDS -ge $until ]; then broke "$what" "expected: $expected"$'\n'"is:       $is"; return; fi
    sleep 0.5
  done
  hold "$what"
}
# finish: the script's last line.
finish() {
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# -- runs -------------------------------------------------------------------------------------------------------------------------

# field NAMESPACE RUN JSONPATH
field() { kubectl -n "$1" get grun "$2" -o "jsonpath={$3}"; }
# ended NAMESPACE RUN: "TERMINAL REASON" of a run that has ended; fails while it has not.
ended() {
  local is; is=$(field "$1" "$2" '.status.terminal} {.status.reason') || return 1
  [ "$is" != " " ] && echo "${is% }"
}
# end_of NAMESPACE RUN: the same, waited for.
end_of() { until_ok "$patience" ended "$1" "$2" > "$work/unended" || { cat "$work/unended"; kubectl -n "$1" get grun "$2" -o yaml; return 1; }; ended "$1" "$2"; }
# ends WHAT NAMESPACE RUN EXPECTED: a check of it; EXPECTED is a terminal and, after a blank, a reason.
ends() { local is; is=$(end_of "$2" "$3"); same "$1" "$4" "$is"; }

# tool_pods [NAMESPACE]: the names of m87's pods that are there now.
tool_pods() {
  local where=(-A); [ -z "${1:-}" ] || where=(-n "$1")
  kubectl get pods -l app.kubernetes.io/managed-by=m87 "${where[@]}" -o name | sed -n 's/^pod.//; /^m87-\(tool\|check\)-/p'
}
# created_pods NAMESPACE UID: names of all tool and validation pods that were ever made for the run, from the audit log (cluster up --audit).
created_pods() {
  jq -r --arg namespace "$1" --arg uid "$2" 'select(.verb == "create" and .stage == "ResponseComplete" and .objectRef.resource == "pods"
    and (.objectRef.subresource // "") == "" and .objectRef.namespace == $namespace and .responseStatus.code == 201)
    | .objectRef.name // .requestObject.metadata.name // .responseObject.metadata.name | select(contains($uid))' "$M87_CLUSTER_RUN/audit.log" | sort -u
}
