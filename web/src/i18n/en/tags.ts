import type { Texts } from '..'
import type zh from '../zh/tags'

const texts: Texts<typeof zh> = {
  title: 'Tags',
  hint: 'A tag groups contacts. Notifications and batches can go to a tag: who is in it is read when they are sent.',
  tag: 'Tag',
  contacts: 'Contacts',
  add: 'Add a tag',
  withCount: '{tag} (nobody) | {tag} ({n} person) | {tag} ({n} people)',
  choose: 'Choose a tag',
  nameHint: 'A name such as VIP customers, without / and not beginning with a dot.',
  added: 'nobody was added. | {n} contact was added. | {n} contacts were added.',
  removed: 'nobody was taken out. | {n} contact was taken out. | {n} contacts were taken out.',
  unknown: 'No such contacts: {names}',
  addTo: 'Add contacts to “{name}”',
  takeOut: 'Take out of “{name}”',
  batch: 'New batch',
  batchTo: 'New batch to “{name}”',
  deleteOne: 'Delete the tag “{name}”',
  empty: {
    title: 'No tags yet',
    text: 'Add a tag and put contacts into it, or name a tag when you import a list.',
  },
  delete: {
    title: 'Delete the tag “{name}”?',
    text: 'The contacts in it stay. Notifications to the tag that wait find nobody.',
    things: 'contacts are in it | contact is in it | contacts are in it',
    button: 'Delete the tag',
  },
  form: {
    addTitle: 'Add to a tag',
    add: 'Add',
    tagHint: 'A tag that does not exist is made.',
    users: 'User ids',
    usersHint: 'Separated by lines, spaces or commas.',
    nobody: 'Give at least one user id',
  },
}
export default texts
