/** The path below which the server is: empty, or such as /lksms. This file is in /console/assets/ below it. */
export const base = import.meta.env.DEV ? '' : new URL(import.meta.url).pathname.replace(/\/console\/assets\/[^/]*$/, '')

/** The address of the server. */
export const server = location.origin + base
