# Sourced after lib.sh by the tests that count effects: runs of bells.yaml, whose tool tells a counter outside the cluster's pods.
here=$root/tests/kube
effects=${work:-/nowhere}/effects

# count_bells: the counter, until the test ends.
count_bells() {
  : > "$effects"
  python3 "$here/counter.py" 10.244.0.1 8099 "$effects" &
  until_ok "$patience" curl -sf -o /dev/null http://10.244.0.1:8099/ready || return 1
}
# bells NAMESPACE: the policy and the tool there.
bells() { tenant "$1" && kubectl -n "$1" apply -f "$here/bells.yaml" > /dev/null; }
# bell NAME SECONDS: a run that rings NAME and takes so long.
bell() {
  cat <<Y
apiVersion: m87.dev/v1alpha1
kind: GovernedRun
metadata: {name: $1}
spec:
  policyRef: {name: slow}
  manifestRef: {name: slow}
  proposal: {tool: ring, actionType: ring, target: bells/$1, risk: low, reasoningTrace: To see how often it rings., input: {bell: $1, seconds: $2}}
Y
}
# ring NAMESPACE NAME SECONDS: asks for it, until the API server has taken it.
ring() { bell "$2" "$3" | until_applied "$1"; }
until_applied() { local text; text=$(cat); until_ok "$patience" kubectl_apply "$1" "$text"; }
kubectl_apply() { kubectl -n "$1" apply -f - <<< "$2"; }
# rung NAME: how often it rang.
rung() { grep -c " /begin/$1\$" "$effects" || true; }
has_rung() { [ "$(rung "$1")" -ge 1 ]; }

node() { ctr -a "$M87_CLUSTER_RUN/containerd.sock" -n k8s.io "$@"; }
pids_of() { # POD-PATTERN CONTAINER: host's ids of the first processes of such containers that run
  local ids; ids=$(node containers ls -q "labels.\"io.kubernetes.container.name\"==$2,labels.\"io.kubernetes.pod.name\"~=\"$1\"")
  [ -z "$ids" ] || node tasks ls | awk 'NR == FNR { wanted[$1]; next } $1 in wanted && $3 == "RUNNING" { print $2 }' <(echo "$ids") -
}
# kill_one SIGNAL POD-PATTERN CONTAINER: fails if there is none.
kill_one() {
  local pid; pid=$(pids_of "$2" "$3" | shuf -n 1)
  [ -n "$pid" ] && kill -s "$1" "$pid"
}

# everything_sealed: every GovernedRun has its terminal.
unended() { kubectl get grun -A -o json | jq -r '.items[] | select(.status.terminal == null) | .metadata.namespace + "/" + .metadata.name'; }
everything_ended() { local left; left=$(unended) && [ -z "$left" ] || { echo "not ended: $left"; return 1; }; }
ready() { kubectl get --raw "/api/v1/namespaces/$home/services/m87:http/proxy/readyz"; }
operator_is_ready() { [ "$(kubectl -n $home get pod m87-0 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
# volume: the folder of the operator's volume on the node.
volume() {
  local name; name=$(kubectl -n $home get pvc data-m87-0 -o 'jsonpath={.spec.volumeName}') || return 1
  kubectl get pv "$name" -o 'jsonpath={.spec.local.path}'
}
# copy_store FROM TO: a copy by SQLite itself, so that it is one instant of the store.
copy_store() { rm -f "$2"; sqlite3 "file:$1/store/authority.db?mode=ro" ".timeout 20000" ".backup '$2'"; }

# judge_history WHAT [FLAG...]: the checker over everything that happened in this cluster.
judge_history() {
  local what=$1 line; shift
  copy_store "$(volume)" "$work/store.db" || { broke "$what: the store could be copied"; return; }
  kubectl get grun -A -o json > "$work/objects.json"
  "$here/history.py" --audit "$M87_CLUSTER_RUN/audit.log" --store "$work/store.db" --objects "$work/objects.json" --effects "$effects" "$@" > "$work/history" || true
  grep '^# ' "$work/history" || true
  while IFS= read -r line; do
    case $line in
      'ok '*) hold "$what: ${line#ok }" ;;
      'FAILED '*) broke "$what: ${line#FAILED }" ;;
    esac
  done < "$work/history"
  check "$what: the whole history was judged" grep -q '^end$' "$work/history"
}
# verify_receipts WHAT NAMESPACE: everything exported and decided again, with the log and the cluster's public key.
verify_receipts() {
  rm -rf "$work/bundles.$2"
  check "$1: every receipt and the log are exported" until_ok "$patience" kubectl m87 receipt export --all -n "$2" -o "$work/bundles.$2" --token "$(reader)"
  kubectl -n $home get configmap m87-ca -o 'jsonpath={.data.signing\.pub\.pem}' > "$work/signing.pub.pem"
  check "$1: receipts verify outside of the cluster, and none is missing" m87 receipt verify "$work/bundles.$2" --key "$work/signing.pub.pem"
}
# reader: a token by which m87 knows somebody who may see everything.
reader() { awk -F, '$2 == "admin" { print $1 }' "$M87_CLUSTER_RUN/tokens.csv"; }
