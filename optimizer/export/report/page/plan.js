export const PLACEMENTS = {
  dram: "DRAM", l1_interleaved: "L1 interleaved", height_sharded: "L1 height sharded", width_sharded: "L1 width sharded",
  block_sharded: "L1 block sharded", host: "host",
};
/** As short as a node has room for. */
export const SHORT = {
  dram: "DRAM", l1_interleaved: "L1", height_sharded: "H", width_sharded: "W", block_sharded: "B", host: "host",
};

/** Parts of an op's record that are numbers in `shared`. */
const SHARED = ["attrs", "config", "predicted", "why", "tables"];

/** The page's data, and what is looked up in them often. */
export class Plan {
  constructor(data) {
    Object.assign(this, data);
    this.total_ns = 0;
    this.slowest_ns = 0;
    this.makers = new Map();
    this.readers = new Map();
    this.ops.forEach((op, at) => {
      op.at = at;
      for (const part of SHARED) if (op[part] !== undefined) op[part] = this.shared[op[part]];
      op.time_ns = op.predicted ? op.predicted.time_ns : null;
      this.total_ns += op.time_ns ?? 0;
      this.slowest_ns = Math.max(this.slowest_ns, op.time_ns ?? 0);
      for (const value of op.outputs ?? []) this.makers.set(value, at);
      for (const value of op.inputs ?? []) {
        if (!this.readers.has(value)) this.readers.set(value, []);
        if (this.readers.get(value).at(-1) !== at) this.readers.get(value).push(at);
      }
      op.text = [op.id, op.name, op.kind, op.op, op.chain, ...(op.origin ?? [])].filter(Boolean).join("\n").toLowerCase();
    });
    const chains = [...new Set(this.ops.map((op) => op.chain).filter(Boolean))];
    this.chains = new Map(chains.map((chain, at) => [chain, at]));
    this.steps = new Map(this.memory.steps.map((step, at) => [step[0], at]));
  }

  layoutOf(value) {
    const at = this.values[value].layout;
    return at === undefined ? null : this.layouts[at];
  }

  /** What a person calls an op: its ONNX node where it has one. */
  name(op) {
    return op.name || (op.origin && op.origin[0]) || op.id;
  }

  /** The part of the name that tells it apart. */
  label(op) {
    return op.label || this.name(op);
  }

  /** Ops whose names hold all words of a text. */
  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return words.length ? this.ops.filter((op) => words.every((word) => op.text.includes(word))) : [];
  }
}
