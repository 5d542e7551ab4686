"""Reads common/containers: python3 tests/support/manifest.py ROOT check|arguments [prefill|decode]

`check` says what does not fit together in pod.yaml and the Containerfile. `arguments` prints the command of that
pod's agent, a word a line.
"""
import re
import shlex
import sys

import yaml

FOLDER = "common/containers"
IMAGE_ONLY = {"ibverbs-providers"}  # a host has the drivers of its cards


def packages(text):
    """The Debian packages of the first `apt-get install` in it."""
    command = re.search(r"apt-get install((?:[^\n]*\\\n)*[^\n]*)", text)[1].replace("\\\n", " ")
    return {word for word in shlex.split(command.split("&&")[0]) if not word.startswith("-")}


def duration(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def options(agent):
    return dict(word.lstrip("-").partition("=")[::2] for word in agent["args"])


def check_pod(pod, user):
    name, spec = pod["metadata"]["name"], pod["spec"]
    (agent,), (engine,) = spec["initContainers"], spec["containers"]
    given = options(agent)
    folders = {volume["name"] for volume in spec["volumes"]}
    run = {m["mountPath"] for m in agent["volumeMounts"]} & {m["mountPath"] for m in engine["volumeMounts"]}
    socket = given["engine-socket"]
    wrong = []

    def expect(fits, sentence):
        if not fits:
            wrong.append(f"{name}: {sentence}")

    expect(agent["restartPolicy"] == "Always", "the agent is no sidecar")
    expect(any(socket.startswith(path + "/") for path in run), f"{socket} is in no folder that both mount")
    expect(any(socket in word for word in engine["command"]), f"the engine is not given {socket}")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        command = agent[probe]["exec"]["command"]
        expect(command == ["kvrail", "alive", socket], f"{probe} asks {command}")
        expect(agent[probe]["timeoutSeconds"] > 2, f"{probe} ends before `kvrail alive` does")
    for container in (agent, engine):
        for mount in container["volumeMounts"]:
            expect(mount["name"] in folders, f"there is no volume {mount['name']}")
    (tls,) = (volume["csi"]["volumeAttributes"] for volume in spec["volumes"] if "csi" in volume)
    of_tls = [m["mountPath"] for m in agent["volumeMounts"] if m["name"] == "tls"]
    for option, file in (("certificate", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt")):
        expect([given[f"tls-{option}"]] == [f"{path}/{file}" for path in of_tls], f"--tls-{option} is not in the volume")
    role = pod["metadata"]["labels"]["app"]
    expect(tls["csi.cert-manager.io/uri-sans"] == f"kvrail://prod/{role}/${{POD_NAME}}", "another identity")
    expect(given["name"] == "$(POD_NAME)", "the certificate is for another name")
    expect(tls["csi.cert-manager.io/fs-group"] == str(user), "the agent cannot read its key")
    expect(spec["securityContext"]["runAsUser"] == user, f"the Containerfile's user is {user}")
    expect(
        spec["terminationGracePeriodSeconds"] > duration(given["drain-timeout"]) + 5,
        "no time is left for the engine's end",
    )
    ports = {port["containerPort"] for port in agent.get("ports", [])}
    listens = {int(given["listen"].rpartition(":")[2])} if "listen" in given else set()
    expect(ports == listens, f"ports {ports}, and the agent listens on {listens}")
    return wrong


def main():
    root, what = sys.argv[1:3]
    with open(f"{root}/{FOLDER}/pod.yaml", encoding="utf-8") as file:
        pods = {pod["metadata"]["labels"]["app"]: pod for pod in yaml.safe_load_all(file)}
    if what == "arguments":
        (agent,) = pods[sys.argv[3]]["spec"]["initContainers"]
        print("\n".join(agent["command"] + agent["args"]))
        return 0
    with open(f"{root}/{FOLDER}/Containerfile", encoding="utf-8") as file:
        image = re.sub(r"^#.*\n", "", file.read(), flags=re.M)
    with open(f"{root}/common/docs/operations.md", encoding="utf-8") as file:
        hosts = packages(file.read().partition("### 2. Install")[2])
    wrong = [line for pod in pods.values() for line in check_pod(pod, int(re.search(r"USER (\d+)", image)[1]))]
    differ = packages(image.rpartition("FROM")[2]) ^ hosts ^ IMAGE_ONLY
    if differ:
        wrong.append(f"the Containerfile and operations.md differ in {sorted(differ)}")
    print("\n".join(wrong or ["what pod.yaml and the Containerfile say fits together"]))
    return 1 if wrong or set(pods) != {"prefill", "decode"} else 0


sys.exit(main())
