// What is looked at stands in the address, so that it can be sent to somebody: #head=5.1&metric=sink

const heard = [];

function inAddress(name) {
  return new URLSearchParams(location.hash.slice(1)).get(name);
}

/** Change some of it; null takes a word out. `quietly` keeps the way back as it was. */
function setAddress(changes, quietly = false) {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) words.delete(name);
    else words.set(name, value);
  }
  const hash = `#${words}`;
  if (hash === location.hash) return;
  if (quietly) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  heard.forEach((each) => each());
}

/** Now, and whenever the address changes. */
function followAddress(follow) {
  heard.push(follow);
  follow();
}

window.addEventListener("popstate", () => heard.forEach((each) => each()));
