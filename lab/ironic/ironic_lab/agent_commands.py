"""The commands of the ramdisk agent: what Ironic asks of it, and what a server without disks answers."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import tarfile
import threading
import uuid
from typing import Any

import requests

from ironic_lab.machine import Machine

CLEAN_STEPS = [
    ("deploy", "erase_devices", 10),
    ("deploy", "erase_devices_metadata", 99),
    ("deploy", "erase_devices_express", 0),
    ("raid", "create_configuration", 0),
    ("raid", "delete_configuration", 0),
]
DEPLOY_STEPS = [
    ("deploy", "write_image", 0),
    ("deploy", "inject_files", 0),
    ("deploy", "erase_devices_metadata", 0),
    ("raid", "apply_configuration", 0),
]
ERASES = ("erase_devices", "erase_devices_metadata", "erase_devices_express")
SERVICE_STEPS = [("deploy", "burnin_cpu", 0), ("raid", "apply_configuration", 0), ("deploy", "inject_files", 0)]
MANAGER_VERSION = {"generic_hardware_manager": "1.2"}
DIGESTS_BY_LENGTH = {64: "sha256", 128: "sha512"}
EXTENSIONS = frozenset("clean deploy image log poll rescue service standby system".split())
STEP_KINDS = {
    "clean.execute_clean_step": "clean",
    "deploy.execute_deploy_step": "deploy",
    "service.execute_service_step": "service",
}


class AgentError(Exception):
    """What a command, or the request for one, failed with."""

    def __init__(self, code: int, message: str, kind: str = "CommandExecutionError") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind = kind

    def view(self) -> dict[str, Any]:
        """As Ironic reads it."""
        return {"type": self.kind, "code": self.code, "message": self.message, "details": self.message}


@dataclasses.dataclass
class Command:
    """A command that Ironic gave, and what became of it."""

    name: str
    params: dict[str, Any]
    id: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "RUNNING"
    error: dict[str, Any] | None = None
    result: Any = None
    done: threading.Event = dataclasses.field(default_factory=threading.Event)

    @property
    def step(self) -> str | None:
        """The step's name, for a command that executes one."""
        return (self.params.get("step") or {}).get("step")

    def succeed(self, result: Any) -> None:
        """End well."""
        self.result = result
        self.status = "SUCCEEDED"
        self.done.set()

    def fail(self, error: AgentError) -> None:
        """End badly."""
        self.error = error.view()
        self.status = "FAILED"
        self.done.set()

    def view(self) -> dict[str, Any]:
        """As Ironic reads it."""
        return {
            "id": self.id,
            "command_name": self.name.partition(".")[2],
            "command_status": self.status,
            "command_error": self.error,
            "command_result": self.result,
        }


def check_name(name: str) -> None:
    """Refuse a command that no agent knows."""
    if name in STEP_KINDS or name in _IMMEDIATE:
        return
    known = name.partition(".")[0] in EXTENSIONS
    raise AgentError(400 if known else 404, f"Unknown command: {name}", "InvalidCommandError")


def immediate_result(name: str, extra_deploy_steps: list[str]) -> Any:
    """The result of a command that is done at once."""
    if name == "deploy.get_deploy_steps":
        steps = DEPLOY_STEPS + [("deploy", step, 0) for step in extra_deploy_steps]
        return {"deploy_steps": _steps(steps), "hardware_manager_version": MANAGER_VERSION}
    return _IMMEDIATE[name]()


def execute_step(machine: Machine, http: requests.Session, kind: str, params: dict[str, Any]) -> dict[str, Any]:
    """Execute a clean, deploy or service step; its result."""
    step = params["step"]
    name = step["step"]
    failures = machine.fault("agent", "fails_step") or {}
    if name in failures:
        raise AgentError(500, failures[name])
    result: Any = None
    if kind == "clean" and name == "create_configuration":
        # Ironic takes this as the node's RAID configuration.
        wanted = (params.get("node") or {}).get("target_raid_config") or {}
        result = {"logical_disks": wanted.get("logical_disks", [])}
    if name in ERASES:
        machine.has_image = False
    if kind == "deploy" and name == "write_image":
        result = _write_image(machine, http, step["args"])
    return {f"{kind}_result": result, f"{kind}_step": step}


def _write_image(machine: Machine, http: requests.Session, args: dict[str, Any]) -> dict[str, str]:
    """Download and verify the image as the real agent does, and write it nowhere."""
    info = args["image_info"]
    wanted = info.get("os_hash_value") or info.get("checksum") or ""
    if "://" in wanted:
        wanted = http.get(wanted, timeout=60).text.split()[0]
    algorithm = info.get("os_hash_algo") or DIGESTS_BY_LENGTH.get(len(wanted), "md5")
    url, size, digest = _download(http, info, algorithm)
    if wanted and digest != wanted:
        message = f"Error verifying image checksum: expected {wanted}, got {digest}"
        raise AgentError(500, message, "ImageChecksumError")
    machine.deployments.append(
        {
            "image_url": url,
            "image_size": size,
            "image_digest": digest,
            "config_drive": args.get("configdrive") or info.get("configdrive"),
        }
    )
    machine.has_image = True
    return {"result": f"write_image: image ({info['id']}) written to device /dev/sda root_uuid=None"}


def _download(http: requests.Session, info: dict[str, Any], algorithm: str) -> tuple[str, int, str]:
    reason = "no URL"
    for url in info["urls"]:
        digest = hashlib.new(algorithm)
        size = 0
        try:
            with http.get(url, stream=True, timeout=60) as response:
                response.raise_for_status()
                for chunk in response.iter_content(1 << 20):
                    digest.update(chunk)
                    size += len(chunk)
        except requests.RequestException as error:
            reason = str(error)
            continue
        return url, size, digest.hexdigest()
    message = f"Error downloading image: Download of image {info['id']} failed: {reason}"
    raise AgentError(500, message, "ImageDownloadError")


def _steps(steps: list[tuple[str, str, int]], **extra: Any) -> dict[str, list[dict[str, Any]]]:
    return {
        "GenericHardwareManager": [
            {"interface": interface, "step": step, "priority": priority, "reboot_requested": False, **extra}
            for interface, step, priority in steps
        ]
    }


def _clean_steps() -> dict[str, Any]:
    return {"clean_steps": _steps(CLEAN_STEPS, abortable=True), "hardware_manager_version": MANAGER_VERSION}


def _service_steps() -> dict[str, Any]:
    return {"service_steps": _steps(SERVICE_STEPS), "hardware_manager_version": MANAGER_VERSION}


def _system_logs() -> dict[str, str]:
    buffer = io.BytesIO()
    text = b"the log of a simulated ramdisk\n"
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("journal")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return {"system_logs": base64.b64encode(buffer.getvalue()).decode()}


def _nothing() -> None:
    return None


_IMMEDIATE = {
    "clean.get_clean_steps": _clean_steps,
    "deploy.get_deploy_steps": _nothing,  # depends on the instance: see immediate_result
    "service.get_service_steps": _service_steps,
    "standby.get_partition_uuids": dict,
    "standby.sync": _nothing,
    "standby.power_off": _nothing,
    "standby.run_image": _nothing,
    # Asynchronous in the real agent; done at once here, because Ironic looks again only after seconds.
    "image.install_bootloader": _nothing,
    "log.collect_system_logs": _system_logs,
    "system.lockdown": _nothing,
    "rescue.finalize_rescue": _nothing,
}
