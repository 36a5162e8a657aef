"""Places that matter: paths that hold credentials, files that start programs, hosts that collect (V3). Data only."""

from __future__ import annotations

import ipaddress
import re

CREDENTIAL_PATHS = re.compile(
    r"""(?:^|[\s"'`=@:(/~}$])(?:
        \.ssh/(?:id_[a-z0-9]{2,10}|\*|$|["'`\s)]|[a-z_]*key)
      | (?:^|[\s"'`=@:(/~}$])id_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)
      | \.aws/(?:credentials|\*|$)
      | \.azure/(?:accesstokens|msal_token|\*)
      | \.config/gcloud/(?:credentials|application_default|access_tokens|\*|$) | application_default_credentials\.json
      | \.kube/config | \.docker/config\.json | \.netrc\b | \.pgpass\b | \.git-credentials\b | \.npmrc\b | \.pypirc\b
      | \.gnupg\b | \.password-store\b | \.config/gh/hosts\.yml | \.vault-token\b | \.bitcoin\b | \.electrum\b
      | \.solana/id\.json | \.config/solana/id\.json | \.ethereum/keystore | \.claude/\.credentials | \.codex/auth\.json
      | etc/(?:shadow|gshadow|sudoers) | proc/(?:self|1|\d+|\*)/environ
      | login\.keychain | library/keychains | login\sdata\b | cookies\.sqlite | logins\.json | key4\.db
      | wallet\.dat | seed\.txt | mnemonic\.txt
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Files whose content opens something else"""

BROWSER_STORES = re.compile(
    r"google[/\\ ]?chrome[/\\].{0,40}(?:default|user data)|\.mozilla/firefox|metamask|nkbihfbeogaeaoehlefnkodbefgpgknn",
    re.IGNORECASE,
)

DOT_ENV = re.compile(r"(?:^|[\s\"'`=@(/])\.env(?:\.(?:local|production|prod))?(?=$|[\s\"'`),;|])")

AUTHORIZED_KEYS = re.compile(r"\.ssh/(?:authorized_keys|config|rc)\b")

AUTOSTART_PATHS = re.compile(
    r"""/etc/cron|/var/spool/cron|/etc/systemd/system|\.config/systemd/user|/etc/init\.d|/etc/rc\.local|/etc/profile
      | launchagents/ | launchdaemons/ | \.config/autostart | start\smenu[/\\]programs[/\\]startup
      | currentversion\\+run | /etc/ld\.so\.preload | \.git/hooks/""",
    re.VERBOSE | re.IGNORECASE,
)

SHELL_RC = re.compile(
    r"(?:~|\$\{?HOME\}?|^|[\"'/])/?\.(?:bashrc|bash_profile|zshrc|zprofile|zshenv|profile|bash_login)\b"
)

AGENT_SETTINGS = re.compile(
    r"""(?:^|[\s"'`=/~])(?:CLAUDE\.md|AGENTS\.md|SOUL\.md|MEMORY\.md|GEMINI\.md|\.cursorrules|\.mcp\.json
      | claude_desktop_config\.json | \.claude/(?:settings(?:\.local)?\.json|hooks) | \.codex/config\.toml
      | \.cursor/(?:rules|mcp\.json) | \.github/copilot-instructions\.md | \.openclaw/)""",
    re.VERBOSE,
)

SYSTEM_PATHS = re.compile(r"(?:/etc/|/root/|/var/(?:log|lib)/|/boot/|/proc/|/sys/)")

DROP_HOSTS = re.compile(
    r"""(?:[\w-]+\.)*(?:
        ngrok(?:-free)?\.(?:io|app|dev) | ngrok\.com(?=/) | trycloudflare\.com | loca\.lt | serveo\.net | localhost\.run | lhr\.life
      | webhook\.site | requestbin\.(?:com|net) | pipedream\.net | beeceptor\.com | hookbin\.com | requestcatcher\.com
      | burpcollaborator\.net | oastify\.com | oast\.(?:fun|pro|live|site|online|me) | interact\.sh | dnslog\.cn | ceye\.io
      | canarytokens\.(?:com|org) | transfer\.sh | file\.io | 0x0\.st | termbin\.com | temp\.sh | anonfiles\.com | gofile\.io
      | pastebin\.com | paste\.ee | hastebin\.com | rentry\.co | glot\.io | ix\.io | dpaste\.(?:com|org) | controlc\.com
      | bit\.ly | tinyurl\.com | is\.gd | cutt\.ly | rebrand\.ly | shorturl\.at
      | duckdns\.org | no-ip\.(?:com|org) | ddns\.net | hopto\.org | zapto\.org
      | [a-z2-7]{16,56}\.onion
    )(?![\w.-]*\w\.\w)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Hosts that anyone may use to collect or hand out anything: tunnels, request bins, pastes, shorteners, free names"""

MESSAGE_HOOKS = re.compile(r"discord(?:app)?\.com/api/webhooks/\d|api\.telegram\.org/bot\d", re.IGNORECASE)

INSTALLER_HOSTS = frozenset(
    """astral.sh sh.rustup.rs rustup.rs static.rust-lang.org get.docker.com download.docker.com bun.sh bun.com deno.land
    get.pnpm.io install.python-poetry.org pixi.sh micro.mamba.pm deb.nodesource.com rpm.nodesource.com
    get.k3s.io get.helm.sh sdk.cloud.google.com fly.io foundry.paradigm.xyz mise.run mise.jdx.dev get.volta.sh
    install.determinate.systems nixos.org cli.github.com awscli.amazonaws.com aka.ms bootstrap.pypa.io
    get.sdkman.io ollama.com claude.ai opencode.ai cursor.com starship.rs just.systems install.duckdb.org
    raw.githubusercontent.com github.com objects.githubusercontent.com gist.github.com packages.microsoft.com
    get.opentofu.org app.factory.ai moonrepo.dev proto.moonrepo.dev wasmtime.dev wasmer.io get.wasmer.io
    ghcup.haskell.org get-ghcup.haskell.org getcomposer.org get.rvm.io raw.github.com setup.atuin.sh sentry.io
    cli.sentry.dev dl.google.com releases.hashicorp.com apt.releases.hashicorp.com sh.brew.sh get.trunk.io
    dot.net dotnet.microsoft.com builds.dotnet.microsoft.com rustwasm.github.io vercel.com docs.anthropic.com""".split()
)
"""Hosts whose own instructions are to pipe their installer into a shell"""

_URL = re.compile(
    r"\bhttps?://(?:[^\s/@\"'`<>]{1,80}@)?(\[[0-9a-fA-F:.]{2,45}\]|[^\s/:?#\"'`<>)\\|;,]{1,255})", re.IGNORECASE
)


def hosts_in(text: str) -> list[str]:
    """The hosts of the http addresses in a text, in lower case."""
    return [found.group(1).lower().rstrip(".") for found in _URL.finditer(text)]


def is_bare_address(host: str) -> bool:
    """Whether a host is a public address by number; also in the forms 2130706433 and 0x7f000001."""
    host = host.strip("[]")
    try:
        address = ipaddress.ip_address(int(host, 0) if re.fullmatch(r"\d{8,10}|0x[0-9a-f]{6,8}", host) else host)
    except ValueError:
        return False
    documentation = ("192.0.2.", "198.51.100.", "203.0.113.")
    return address.is_global or str(address).startswith(documentation)


def is_installer_host(host: str) -> bool:
    """Whether a host, or the one it is below, is known for installers."""
    return host in INSTALLER_HOSTS or host.removeprefix("www.") in INSTALLER_HOSTS
