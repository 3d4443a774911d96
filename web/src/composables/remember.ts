// What the browser remembers for the viewer. A browser that keeps nothing is no error.
export function recalled(name: string): string | null {
  try {
    return sessionStorage.getItem(`lksms.${name}`)
  } catch {
    return null
  }
}

/** Remembers until the tab is closed. */
export function recall(name: string, value: string): void {
  try {
    sessionStorage.setItem(`lksms.${name}`, value)
  } catch {
    // Private windows may refuse.
  }
}

export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(`lksms.${name}`)
  } catch {
    return null
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`lksms.${name}`, value)
  } catch {
    // Private windows may refuse.
  }
}
