/** Which op is chosen, and who wants to know. */
export class Choice {
  constructor(count) {
    this.count = count;
    this.op = null;
    this.watchers = [];
  }

  watch(watcher) {
    this.watchers.push(watcher);
  }

  /** `opens`: show why it is as it is; else it is only pointed out. */
  choose(op, opens = true) {
    if (op !== null && !(op >= 0 && op < this.count)) return;
    this.op = op;
    for (const watcher of this.watchers) watcher(op, opens);
  }
}
