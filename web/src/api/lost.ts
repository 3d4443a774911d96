// What happens when the server refuses a request with 401 or 403: the session may have ended, or belong to another user. session.ts sets it; the
// client must not import the session.
export const onRefused = { run: (_status: 401 | 403) => {} }
