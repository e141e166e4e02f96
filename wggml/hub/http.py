"""Opening addresses with the proxy, certificates and patience that pip is set up with, and with the
login that an index's address may carry."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.request
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from wggml.hub.pip_config import PipConfig

RETRIES = 3
"""Attempts at one download before it is given up."""


class Opener:
    """Opens http(s) and file addresses by the settings of a `PipConfig`."""

    def __init__(self, config: PipConfig) -> None:
        self._timeout = config.timeout_seconds
        handlers: list[urllib.request.BaseHandler] = [_CrossHostAuth()]
        if config.proxy:
            proxies = {"http": config.proxy, "https": config.proxy}
            handlers.append(urllib.request.ProxyHandler(proxies))
        context = ssl.create_default_context(cafile=config.cert)
        handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def open(self, url: str, *, accept: str = "*/*") -> Any:
        """Opens `url` for reading; the reply has read(), headers and geturl().

        Raises OSError (urllib.error.URLError and HTTPError are kinds of it).
        """
        plain, login = split_login(url)
        headers = {"Accept": accept, "User-Agent": "wggml"}
        if login:
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        request = urllib.request.Request(plain, headers=headers)
        try:
            return self._opener.open(request, timeout=self._timeout)
        except http.client.HTTPException as error:
            raise OSError(f"the server's answer is not HTTP: {error!r}") from error


class _CrossHostAuth(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and keeps a login from going to another host."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urlsplit(newurl).hostname != urlsplit(req.full_url).hostname:
            new.headers.pop("Authorization", None)
        return new


def split_login(url: str) -> tuple[str, str]:
    """(address without login, "user:password" or "")."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, ""
    login, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), unquote(login)


def redacted(url: str) -> str:
    """`url` as it may be shown: without the login it carries."""
    return split_login(url)[0]
