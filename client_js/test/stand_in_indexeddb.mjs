// A small IndexedDB of a test's own: what browsers do to it is said by `browser`.

const later = (act) => setTimeout(act, 1);

/**
 * Put in the place of the platform's. browser: dead: connections up to this number are; how: what a
 * dead one does ("aborts" at its first request, "throws" at `transaction`, or loses what was "put");
 * isSilent: no request is answered; hasStore: false where the browser deleted the store alone; room:
 * documents that can be stored.
 */
export const standIn = (t) => {
  const browser = { dead: 0, how: "aborts", isSilent: false, hasStore: true, room: Infinity, opens: 0, open: 0, data: new Map() };
  const before = {};
  const put = (name, descriptor) => {
    before[name] ??= Object.getOwnPropertyDescriptor(globalThis, name) ?? null;
    Object.defineProperty(globalThis, name, { configurable: true, ...descriptor });
  };
  const request = (act) => {
    const asked = {};
    if (!browser.isSilent) later(() => ((asked.result = act()), asked.onsuccess?.({})));
    return asked;
  };
  const database = () => {
    const mine = ++browser.opens;
    browser.open++;
    let isOpen = true;
    const isDead = () => mine <= browser.dead;
    return {
      close() {
        if (isOpen) browser.open--;
        isOpen = false;
      },
      transaction() {
        if (!isOpen || (isDead() && browser.how === "throws")) throw new DOMException("The database connection is closing.", "InvalidStateError");
        if (!browser.hasStore) throw new DOMException("One of the specified object stores was not found.", "NotFoundError");
        const running = { error: null };
        const own = new Map(browser.data);
        let isOver = false;
        const end = (error) => {
          if (isOver) return;
          isOver = true;
          running.error = error;
          later(() => running.onabort?.({}));
        };
        const lost = () => end(new DOMException("Connection to Indexed Database server lost. Refresh the page to try again", "UnknownError"));
        const ask = (get) => {
          const asked = {};
          const answer = () => {
            if (browser.isSilent) return later(answer);
            if (isDead() && browser.how === "aborts") return lost();
            if (!isOver) (asked.result = get()), asked.onsuccess?.({});
          };
          later(answer);
          return asked;
        };
        const among = ([low, high]) => [...own.keys()].filter((key) => key >= low && key <= high).sort();
        running.objectStore = () => ({
          get: (key) => ask(() => structuredClone(own.get(key))),
          getAllKeys: (range) => ask(() => among(range)),
          getAll: (range) => ask(() => among(range).map((key) => structuredClone(own.get(key)))),
          put: (value, key) => void own.set(key, structuredClone(value)),
          delete: (key) => void own.delete(key),
        });
        running.commit = () => later(() => {
          if (isDead()) return lost();
          if (own.size > browser.room) return end(new DOMException("", "QuotaExceededError"));
          if (isOver) return;
          isOver = true;
          browser.data = own;
          running.oncomplete?.({});
        });
        running.abort = () => {
          if (isOver) throw new DOMException("", "InvalidStateError");
          end(null);
        };
        return running;
      },
    };
  };
  put("IDBKeyRange", { value: { bound: (low, high) => [low, high] } });
  put("indexedDB", { value: {
    open: () => request(database),
    deleteDatabase: () => request(() => ((browser.data = new Map()), (browser.hasStore = true), undefined)),
  } });
  put("BroadcastChannel", { value: class { static number = 0; constructor() { this.constructor.number++; } postMessage() {} close() { this.constructor.number--; } } });
  t.after(() => {
    for (const [name, descriptor] of Object.entries(before)) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
    }
  });
  return Object.assign(browser, { put });
};
