//! The specification's words: values of columns (clauses 4.2.2.13 and 4.2.3) and of the text (4.2.2.14), the latter with the
//! weights that the TPC's own generator gives them.

/// Nations with the number of their region.
pub(super) const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
pub(super) const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
pub(super) const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];
pub(super) const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
pub(super) const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
pub(super) const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

/// The three syllables of a part's type.
pub(super) const TYPES: (&[&str], &[&str], &[&str]) = (
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
);
/// The two syllables of a container.
pub(super) const CONTAINERS: (&[&str], &[&str]) =
    (&["SM", "LG", "MED", "JUMBO", "WRAP"], &["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]);
/// Words of a part's name.
pub(super) const COLORS: &str = "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood \
    burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral \
    forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime \
    linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru \
    pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel \
    tan thistle tomato turquoise violet wheat white yellow";

/// Words that are equally likely, separated by commas, with the weight of each.
pub(super) type Weighted = &'static [(u32, &'static str)];

pub(super) const NOUNS: Weighted = &[
    (40, "packages,requests,accounts,deposits"),
    (20, "foxes,ideas,theodolites,pinto beans,instructions"),
    (10, "dependencies,excuses,platelets,asymptotes"),
    (5, "courts,dolphins"),
    (
        1,
        "multipliers,sauternes,warthogs,frets,dinos,attainments,somas,Tiresias,patterns,forges,braids,frays,warhorses,\
         dugouts,notornis,epitaphs,pearls,tithes,waters,orbits,gifts,sheaves,depths,sentiments,decoys,realms,pains,\
         grouches,escapades,hockey players",
    ),
];
pub(super) const VERBS: Weighted = &[
    (20, "sleep,wake,are,cajole,haggle"),
    (10, "nag,use,boost"),
    (5, "affix,detect,integrate"),
    (
        1,
        "maintain,nod,was,lose,sublate,solve,thrash,promise,engage,hinder,print,x-ray,breach,eat,grow,impress,mold,\
         poach,serve,run,dazzle,snooze,doze,unwind,kindle,play,hang,believe,doubt",
    ),
];
pub(super) const ADJECTIVES: Weighted = &[
    (50, "regular"),
    (40, "final,ironic"),
    (30, "even"),
    (20, "special,pending,unusual,express,bold"),
    (10, "silent"),
    (
        1,
        "furious,sly,careful,blithe,quick,fluffy,slow,quiet,ruthless,thin,close,dogged,daring,brave,stealthy,permanent,\
         enticing,idle,busy",
    ),
];
pub(super) const ADVERBS: Weighted = &[
    (50, "furiously,slyly,carefully"),
    (40, "blithely"),
    (30, "quickly"),
    (20, "fluffily"),
    (
        1,
        "sometimes,always,never,slowly,quietly,ruthlessly,thinly,closely,doggedly,daringly,bravely,stealthily,\
         permanently,enticingly,idly,busily,regularly,finally,ironically,evenly,boldly,silently",
    ),
];
pub(super) const PREPOSITIONS: Weighted = &[
    (50, "about,above,according to,across,after"),
    (40, "against,along"),
    (30, "alongside of,among"),
    (20, "around"),
    (10, "at"),
    (
        1,
        "atop,before,behind,beneath,beside,besides,between,beyond,by,despite,during,except,for,from,in place of,inside,\
         instead of,into,near,of,on,outside,over,past,since,through,throughout,to,toward,under,until,up,upon,without,\
         with,within",
    ),
];
pub(super) const AUXILIARIES: Weighted = &[(
    1,
    "do,may,might,shall,will,would,can,could,should,ought to,must,will have to,shall have to,could have to,\
     should have to,must have to,need to,try to",
)];
pub(super) const TERMINATORS: Weighted = &[(50, "."), (1, ";,:,?,!,--")];

/// Forms of a sentence: `N` a noun phrase, `V` a verb phrase, `P` a preposition with `the` and a noun phrase, `T` its end.
pub(super) const SENTENCES: Weighted = &[(3, "N VT,N V PT,N V NT"), (1, "N P V NT,N P V PT")];
/// Forms of a noun phrase: `n` a noun, `j` an adjective, `d` an adverb; `;` stands for a comma.
pub(super) const NOUN_PHRASES: Weighted = &[(10, "n,j; j n"), (20, "j n"), (50, "d j n")];
/// Forms of a verb phrase: `v` a verb, `x` an auxiliary, `d` an adverb.
pub(super) const VERB_PHRASES: Weighted = &[(30, "v"), (1, "x v,x v d"), (40, "v d")];
