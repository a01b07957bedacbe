/** A page of a list. */
export interface Page<T> {
  /** The entries. */
  readonly items: T[];
  /** The `cursor` of the next page; `null` on the last page. */
  readonly nextCursor: string | null;
}

/**
 * A list that the server returns in pages. Iterating over it requests the pages as they are needed:
 *
 * ```ts
 * for await (const key of client.keys.list()) console.log(key.name);
 * ```
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #read: (cursor: string | undefined) => Promise<Page<T>>;

  /** @internal */
  constructor(read: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#read = read;
  }

  /** Returns the first page. To get the next one, pass its `nextCursor` as `cursor` in the query of the list. */
  firstPage(): Promise<Page<T>> {
    return this.#read(undefined);
  }

  /** Iterates over the pages. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.#read(cursor);
      yield page;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Returns the entries as an array, at most the first `max`. */
  async toArray(max = Number.POSITIVE_INFINITY): Promise<T[]> {
    const items: T[] = [];
    if (max <= 0) return items;
    for await (const item of this) {
      items.push(item);
      if (items.length >= max) break;
    }
    return items;
  }

  /** Iterates over the entries of all pages. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page.items;
  }
}
