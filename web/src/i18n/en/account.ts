import type { Texts } from '..'
import type zh from '../zh/account'

const texts: Texts<typeof zh> = {
  signIn: {
    hint: 'Sign in to the console',
    username: 'User name',
    password: 'Password',
    button: 'Sign in',
  },
  again: {
    title: 'Sign in again',
    text: 'Your session has ended. Sign in as the same user to return to the page with everything that you typed.',
  },
  nothing: {
    title: 'No page is available',
    text: 'Your user may not use any page of the console. Ask an administrator.',
  },
  notFound: {
    title: 'Page not found',
    what: 'This page does not exist, or you may not open it.',
    text: 'Check the address, or choose a page in the navigation.',
    home: 'Go to the first page',
  },
}
export default texts
