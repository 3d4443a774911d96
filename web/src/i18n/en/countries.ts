import type { Texts } from '..'
import type zh from '../zh/countries'

const texts: Texts<typeof zh> = {
  title: 'Countries',
  hint: 'A phone number belongs to the country with the longest matching dial prefix. Companies, channels and routes can be limited to countries.',
  add: 'Add a country',
  no: 'Country number',
  name: 'Name',
  prefix: 'Dial prefix',
  region: 'Numbers',
  everyNumber: 'every number with +{prefix}',
  signature: 'Signature',
  editOne: 'Edit the country “{name}”',
  deleteOne: 'Delete the country “{name}”',
  empty: {
    title: 'No countries yet',
    text: 'None is needed as long as nothing depends on the country. Add one, such as CN with the prefix 86, to route by country, to limit where messages go, or to require signatures.',
  },
  delete: {
    title: 'Delete the country “{name}”?',
    text: 'Only a country that no company, channel, route or sender refers to can be deleted. It cannot be restored.',
    button: 'Delete the country',
  },
  form: {
    edit: 'Edit the country “{name}”',
    noHint: 'Usually the ISO code, such as CN or US. It cannot be changed later.',
    prefixHint: 'Without the +: 86 for China, 1 for the United States and for Canada.',
    regionHint: 'Countries may share a prefix, such as +1 or +7. Then the region says to which one a number belongs.',
    auto: 'Automatic: if the country number is a region with this prefix, only its numbers',
    every: 'Every number with this prefix',
    one: 'Only numbers of this region:',
    code: 'ISO code of the region',
    signatureHint: 'Messages to this country need a signature.',
  },
}
export default texts
