import type { Schema } from '@/api/types'

/** The roles in the order in which a person chooses one. */
export const roles: Schema<'Role'>[] = ['submit', 'send', 'read', 'admin']

const letters = 'abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'

/** A password of 20 characters without those that look alike (116 bits). */
export function newPassword(): string {
  let password = ''
  while (password.length < 20) {
    for (const byte of crypto.getRandomValues(new Uint8Array(32))) {
      if (byte < 4 * letters.length && password.length < 20) password += letters[byte % letters.length]
    }
  }
  return password
}
