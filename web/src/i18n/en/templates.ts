import type { Texts } from '..'
import type zh from '../zh/templates'

const texts: Texts<typeof zh> = {
  title: 'Templates',
  hint: 'Messages that are submitted with a template are written with the first enabled template, by id.',
  add: 'Add a template',
  id: 'Id',
  name: 'Name',
  content: 'Template text',
  companies: 'Companies',
  allCompanies: 'All companies',
  sendType: 'Sending',
  sendTypes: {
    realtime: 'At once',
    scheduled: 'At set intervals',
  },
  status: 'State',
  enabledNow: 'The template “{name}” is enabled',
  disabledNow: 'The template “{name}” is disabled',
  editOne: 'Edit the template “{name}”',
  deleteOne: 'Delete the template “{name}”',
  empty: {
    title: 'No templates yet',
    text: "Add a template first, such as “Your code is {'{'}code{'}'}”. Messages then only need the parameters.",
  },
  delete: {
    title: 'Delete the template “{name}”?',
    text: 'This cannot be undone. Messages that exist keep their text. Later messages use the next enabled template.',
    button: 'Delete the template',
  },
  form: {
    edit: 'Edit the template “{name}”',
    contentHint: "A name in braces is a parameter, such as {'{'}code{'}'}. A name has no spaces.",
    examples: 'Fill in example values to see the message:',
    noText: 'The preview appears here when you type a text.',
    companiesHint: 'Choose none to let all companies use it.',
    sendTypeHint: 'At set intervals: messages go out together at the next interval of the settings, unless a message has a time of its own.',
    active: 'Enable this template',
  },
}
export default texts
