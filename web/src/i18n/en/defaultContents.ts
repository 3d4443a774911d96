import type { Texts } from '..'
import type zh from '../zh/defaultContents'

const texts: Texts<typeof zh> = {
  title: 'Default contents',
  hint: 'A company that submits a phone number without a text sends the default content of that number, once.',
  add: 'Add a default content',
  company: 'Company',
  phone: 'Phone number',
  content: 'Content',
  kind: 'Kind',
  text: 'Text',
  parameters: 'Template parameters',
  status: 'State',
  sent: 'Sent',
  notSent: 'Not sent',
  reset: 'Allow sending again',
  resetDone: 'This default content can be sent once more',
  empty: {
    title: 'No default contents yet',
    text: 'Add a default content for a phone number first. The company then only submits the number.',
  },
  delete: {
    title: 'Delete the default content of {phone}?',
    text: 'This cannot be undone. A message of the company to this number without a text will be rejected.',
    button: 'Delete the default content',
  },
  form: {
    edit: 'Edit the default content',
    phoneHint: 'A number without + is in mainland China.',
    companyHint: 'Choose none for the company “default”.',
    parametersHint: 'Form-encoded parameters, such as code=123456&name=Li',
    otherCompany: 'The text comes from a template of that company, and cannot be shown here.',
  },
}
export default texts
