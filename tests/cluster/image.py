#!/usr/bin/env python3
"""Writes an OCI image archive of static binaries and prints the digest of its manifest.

image.py OUT.tar REF BINARY [ENTRYPOINT] [PATH=BINARY | PATH->TARGET ...]
The same files give the same bytes, hence the same digest.
"""
import hashlib
import io
import json
import sys
import tarfile

out, ref, binary = sys.argv[1:4]
entry = sys.argv[4] if len(sys.argv) > 4 else "/app"


def add(archive, name, data, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def link(archive, name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
    archive.addfile(info)


def read(path):
    with open(path, "rb") as file:
        return file.read()


layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    add(tar, entry.lstrip("/"), read(binary), 0o755)
    tmp = tarfile.TarInfo("tmp")
    tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
    tar.addfile(tmp)
    for more in sys.argv[5:]:
        if "->" in more:
            link(tar, *more.lstrip("/").split("->", 1))
        else:
            name, path = more.split("=", 1)
            add(tar, name.lstrip("/"), read(path), 0o755)
layer = layer.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob(kind, data):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}


config = json.dumps({
    "architecture": "amd64", "os": "linux",
    "config": {"Entrypoint": [entry], "User": "65532:65532", "Env": ["PATH=/usr/bin:/bin"]},
    "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
}).encode()
manifest = json.dumps({
    "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": blob("config.v1+json", config), "layers": [blob("layer.v1.tar", layer)],
}).encode()
index = json.dumps({"schemaVersion": 2, "manifests": [
    blob("manifest.v1+json", manifest) | {"annotations": {"io.containerd.image.name": ref}}]}).encode()
with tarfile.open(out, "w") as tar:
    add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    add(tar, "index.json", index)
    for data in (manifest, config, layer):
        add(tar, "blobs/sha256/" + digest(data)[len("sha256:"):], data)
print(digest(manifest))
