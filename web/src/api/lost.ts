// What happens when the server says that the session has ended. session.ts sets it; the client must not import the session.
export const onSessionLost = { run: () => {} }
